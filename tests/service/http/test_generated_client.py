"""A client that openapi-python-client generates from the document calls every operation."""

from __future__ import annotations

import importlib
import io
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

import httpx
import pytest

from hasse.models.checkpoints import checkpoint
from hasse.service.app import create_app
from hasse.service.http.access import fingerprint, new_key
from hasse.service.settings import Settings
from tests.phrases import make_phrases
from tests.service.collection import make_collection, png
from tests.service.http.serving import served

openapi_python_client = pytest.importorskip("openapi_python_client")

pytestmark = pytest.mark.slow

KEY = new_key()
PACKAGE = "generated_client"
OF_SEARCH = {
    "k": 3,
    "mode": "exact",
    "candidates": 100,
    "max_violation": 1e6,
    "offset": 1,
    "split": "",
    "path_prefix": "",
    "added_from": datetime(2020, 1, 1, tzinfo=UTC),
    "taken_from": datetime(1970, 1, 1, tzinfo=UTC),
}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a service whose model has phrases."""
    folder = make_collection(tmp_path_factory.mktemp("generated"))
    make_phrases(checkpoint.load(folder.parent / "model"))
    keys = f"tests:{fingerprint(KEY)}"
    with served(Settings(library=folder, device="cpu", write_keys=keys)) as url:
        yield url


CHOICES = {"size": "large", "format_": "csv"}


@pytest.fixture
def generated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The package that is generated from the document."""
    from openapi_python_client.config import Config, ConfigFile, MetaType

    document = tmp_path / "openapi.json"
    document.write_text(json.dumps(create_app(Settings()).openapi()))
    config = Config.from_sources(
        ConfigFile(post_hooks=[]), MetaType.NONE, document, "utf-8", True, tmp_path / PACKAGE
    )
    for warning in openapi_python_client.generate(config=config):
        # Files are read as bytes.
        assert re.search("image/|text/csv|jsonl|zip|atom", str(warning.detail)), warning
    monkeypatch.syspath_prepend(tmp_path)
    return importlib.import_module(PACKAGE)


def bodies(models: ModuleType, file: type[Any]) -> dict[str, list[Any]]:
    """Return requests by the path that they are sent to."""

    def form(name: str, **fields: Any) -> Any:
        picture = file(io.BytesIO(png(1)), "one.png", "image/png")
        kind = getattr(models, name)
        if "mode" in fields:
            fields["mode"] = getattr(models, f"{name}Mode")(fields["mode"])
        return kind(image=picture, **fields)

    def query(name: str, **fields: Any) -> Any:
        if "mode" in fields:
            fields["mode"] = getattr(models, f"{name}Mode")(fields["mode"])
        return getattr(models, name)(**fields)

    pair = {"premise": "a dog runs", "hypothesis": "a dog"}
    return {
        "/search/images": [
            query("ImageQuery", caption="a dog", image_ids=[1001, 1002], **OF_SEARCH),
            form("SimilarForm", image_ids="1001,1002", **OF_SEARCH),
        ],
        "/search/images/batch": [query("ImagesQuery", captions=["a dog", "a cat"], **OF_SEARCH)],
        "/search/images/export": [query("ImageQuery", caption="a dog", **OF_SEARCH)],
        "/search/captions": [form("CaptionForm", distinct=True, written=False, **OF_SEARCH)],
        "/search/all_of": [
            query("AllOfQuery", all_of=["a dog", 1001], **OF_SEARCH),
            form("AllOfForm", all_of=["a dog", "a cat"], **OF_SEARCH),
        ],
        "/search/common": [
            query("CommonQuery", common=["a dog", 1001], distinct=False, **OF_SEARCH),
            form("CommonForm", common=["a dog"], distinct=False, written=True, **OF_SEARCH),
        ],
        "/search/like": [
            query("LikeQuery", like=1001, plus=["a dog"], minus=["a cat"], **OF_SEARCH),
            form("LikeForm", plus=["a dog"], minus=["a cat"], **OF_SEARCH),
        ],
        "/describe": [query("DescribeQuery", image_id=1001, k=1), form("DescribeForm", k=2)],
        "/entails": [models.EntailsQuery(**pair), form("EntailsForm", hypothesis="a dog")],
        "/entails/batch": [models.PairsQuery(pairs=[models.PairQuery(**pair)])],
        "/embed": [query("EmbedQuery", texts=["a dog"]), form("EmbedForm", texts=["a dog"])],
        "/annotations": [models.AnnotationFields(image_ids=[1001], keywords=["Anna"])],
        "/annotations/remove": [models.AnnotationFields(image_ids=[1001], keywords=["Anna"])],
        "/searches/{name}": [query("ImageQuery", caption="a dog")],
        "/images": [form("UploadForm", caption=["a dog", "a cat"], image_id=9001, split="new")],
    }


def test_generated_client_calls_every_operation(generated: ModuleType, url: str) -> None:
    models = importlib.import_module(f"{PACKAGE}.models")
    types = importlib.import_module(f"{PACKAGE}.types")
    client = generated.AuthenticatedClient(base_url=url, token=KEY)
    requests = bodies(models, types.File)
    caption = httpx.get(f"{url}/images/1001").json()["captions"][0]["caption_id"]
    named = {"image_id": 1001, "caption_id": caption, "caption": "a dog", "name": "dogs"}
    for path, methods in create_app(Settings()).openapi()["paths"].items():
        for method, operation in methods.items():
            name = operation["operationId"].replace("__", "_")
            module = f"{PACKAGE}.api.{operation['tags'][0]}.{name}"
            call = importlib.import_module(module).sync_detailed
            given = {name: value for name, value in named.items() if name in call.__annotations__}
            kinds = get_type_hints(call)
            given |= {name: kinds[name](one) for name, one in CHOICES.items() if name in kinds}
            if method == "delete" and "image_id" in given:
                given["image_id"] = 1005
            contents = operation.get("requestBody", {}).get("content", {})
            every = [{"body": body} for body in requests[path]] if contents else [{}]
            assert len(every) == max(1, len(contents)), path
            if path.startswith("/searches/"):  # another operation may have removed it
                kept = httpx.put(
                    f"{url}/searches/dogs",
                    json={"caption": "a dog"},
                    headers={"Authorization": f"Bearer {KEY}"},
                )
                assert kept.is_success
            for body in every:
                answer = call(client=client, **given, **body)
                assert answer.status_code in (200, 201, 204), (method, path, answer.content)
                assert not isinstance(answer.parsed, models.Problem)
    client.get_httpx_client().close()
