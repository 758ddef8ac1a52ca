"""The OpenAPI document is complete, and the service answers as it says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from jsonschema_rs import Draft202012Validator
from schemathesis.checks import CHECKS

from hasse.service.app import create_app
from hasse.service.errors import MEDIA_TYPE
from hasse.service.http.access import fingerprint, new_key
from hasse.service.settings import Settings
from tests.service.client import Client
from tests.service.collection import make_collection, png
from tests.service.http.serving import served

KEY = new_key()
WRITE_KEYS = f"tests:{fingerprint(KEY)}"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server that answers on a port of its own, over a collection of its own."""
    folder = make_collection(tmp_path_factory.mktemp("openapi"))
    settings = Settings(library=folder, device="cpu", write_keys=WRITE_KEYS)
    with served(settings) as url:
        yield url


# Of text, since schemathesis cannot always tell whether a form that holds bytes is valid.
schemathesis.openapi.format("binary", st.text())
schema = schemathesis.openapi.from_dict(create_app(Settings(write_keys=WRITE_KEYS)).openapi())
EXAMPLES = 40
if hypothesis_settings.get_current_profile_name() == "quick":
    EXAMPLES = 10
    schema.config.phases.update(phases=["examples", "fuzzing"])  # without all limits of all fields


# What may be said to be wrong with a form that is right. It has no types: a number in the place of
# a caption is sent as a text, which is one. An empty text leaves a field out, as forms of pages do.
# The picture is replaced below by a good one.
RIGHT_IN_FORMS = re.compile(
    r"\btype\b|\bdate-time\b|\bnear\b|\bimage\b|valid object|only required properties", re.I
)


@schema.parametrize()
@hypothesis_settings(
    max_examples=EXAMPLES, derandomize=True, suppress_health_check=list(HealthCheck)
)
def test_request_of_any_shape_gets_an_answer_that_the_document_names(
    case: schemathesis.Case[Any], url: str
) -> None:
    excluded: list[Any] = []
    if case.media_type == "multipart/form-data":
        broken = None if case.meta is None else getattr(case.meta.phase.data, "description", None)
        if RIGHT_IN_FORMS.search(broken or "type"):
            excluded.append(CHECKS.get_one("negative_data_rejection"))
        body: Any = case.body
        if isinstance(body, dict):
            if "" in body.values():
                excluded.append(CHECKS.get_one("negative_data_rejection"))
            if "image" in body:
                body["image"] = png(1)  # a schema cannot say which bytes are a picture
    locked = "security" in case.operation.definition.raw
    headers = {"Authorization": f"Bearer {KEY}"} if locked else {}
    answer = case.call(base_url=url, headers=headers, timeout=60)
    if answer.status_code == 422 and re.search("Hasse (has never seen|reads words)", answer.text):
        # Nor which words the model knows.
        excluded.append(CHECKS.get_one("positive_data_acceptance"))
    case.validate_response(answer, headers=headers, excluded_checks=excluded)


WRITES = {"/images", "/annotations", "/annotations/remove", "/searches/{name}/looked"}


def test_operation_of_a_question_is_named_after_its_path(client: Client) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    asked = [path for path, methods in paths.items() if "post" in methods and path not in WRITES]
    assert {"/describe", "/search/images", "/search/images/batch"} < set(asked)
    for path in asked:
        name = path.removeprefix("/").replace("/", "_")
        assert paths[path]["post"]["operationId"] == f"{name}_{name}_post"


def test_operation_names_its_errors_as_problems(client: Client) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    assert set(paths) == {
        "/search/images",
        "/search/images/batch",
        "/search/images/export",
        "/search/captions",
        "/search/all_of",
        "/search/common",
        "/search/like",
        "/describe",
        "/entails",
        "/entails/batch",
        "/embed",
        "/diagram",
        "/images/{image_id}/diagram",
        "/images",
        "/images/{image_id}",
        "/images/{image_id}/file",
        "/images/{image_id}/thumbnail",
        "/images/{image_id}/preview/{size}",
        "/captions/{caption_id}",
        "/annotations",
        "/annotations/remove",
        "/searches",
        "/searches/{name}",
        "/searches/{name}/feed",
        "/searches/{name}/looked",
        "/livez",
        "/readyz",
        "/metrics",
        "/version",
    }
    for path, methods in paths.items():
        for operation in methods.values():
            assert operation["summary"], path
            assert operation["description"], path
            for status, response in operation["responses"].items():
                if int(status) >= 400:
                    assert list(response["content"]) == [MEDIA_TYPE], (path, status)


def test_document_references_all_resolve(client: Client) -> None:
    document = client.get("/openapi.json").json()

    def references(node: Any) -> Iterator[str]:
        if isinstance(node, dict):
            if "$ref" in node:
                yield node["$ref"]
            for value in node.values():
                yield from references(value)
        elif isinstance(node, list):
            for value in node:
                yield from references(value)

    names = {reference.removeprefix("#/components/schemas/") for reference in references(document)}
    assert names <= set(document["components"]["schemas"])
    assert {"ImageQuery", "CaptionForm", "ImageAnswer", "CaptionAnswer", "Problem"} <= names


def test_form_fields_are_described_as_a_form_can_send_them(client: Client) -> None:
    document = client.get("/openapi.json").json()
    forms = [
        content["multipart/form-data"]["schema"]["$ref"].rpartition("/")[2]
        for methods in document["paths"].values()
        for operation in methods.values()
        if "multipart/form-data" in (content := operation.get("requestBody", {}).get("content", {}))
    ]
    assert set(forms) >= {"CaptionForm", "UploadForm", "AllOfForm", "LikeForm", "EntailsForm"}
    for name in forms:
        for field, schema in document["components"]["schemas"][name]["properties"].items():
            assert "anyOf" not in schema, (name, field)
            assert schema.get("default", "") is not None, (name, field)
            if field == "image_ids":
                assert re.fullmatch(schema["pattern"], "1003,7")


def test_document_examples_and_defaults_satisfy_their_schemas(client: Client) -> None:
    document = client.get("/openapi.json").json()
    checked = 0

    def check(node: Any) -> None:
        nonlocal checked
        if isinstance(node, dict):
            samples = list(node["examples"]) if isinstance(node.get("examples"), list) else []
            if "default" in node and {"type", "anyOf"} & set(node):
                samples.append(node["default"])
            schema = {**node, "components": document["components"]}
            for sample in samples:
                Draft202012Validator(schema).validate(sample)
            checked += len(samples)
        for value in node.values() if isinstance(node, dict) else node:
            if isinstance(value, (dict, list)):
                check(value)

    check(document)
    assert checked > 50


def test_docs_need_nothing_from_other_sites(client: Client) -> None:
    response = client.get("/docs")
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    addresses = re.findall(r'(?:src|href)="([^"]+)"', response.text)
    assert len(addresses) == 5
    for address in addresses:
        assert client.get(f"/{address}").status_code == 200
    assert "script-src 'self';" in response.headers["content-security-policy"]


def test_docs_render_the_version_of_openapi_that_is_written(client: Client) -> None:
    assert client.get("/openapi.json").json()["openapi"].startswith("3.1.")
    script = client.get("/docs/swagger-ui-bundle.js").text
    (major,) = re.findall(r'PACKAGE_VERSION:"(\d+)', script)
    assert int(major) >= 5, "older ones cannot show 3.1"
