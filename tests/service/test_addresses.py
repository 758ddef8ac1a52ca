"""The service under a path prefix, and pages of other sites that use it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError

from hasse.service.app import create_app
from hasse.service.settings import Settings
from tests.service.client import Client
from tests.service.collection import make_collection, png

LINK = re.compile(r'(?:src|href|action|hx-get|hx-post)="([^"#][^"]*)"')


@pytest.fixture(scope="module")
def prefixed(collection: Path) -> Iterator[Client]:
    settings = Settings(library=collection, device="cpu", root_path="/hasse", open_writes=True)
    with Client(create_app(settings)) as client:
        yield client


def local_links(html: str) -> set[str]:
    return {link for link in LINK.findall(html) if not link.startswith(("data:", "http"))}


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/?q=a+dog",
        "/?image=1003",
        "/page/diagram?q=a+dog",
        "/page/combine",
        "/page/add",
        "/?image=5",
    ],
)
def test_page_under_a_prefix_has_no_link_outside_it(prefixed: Client, path: str) -> None:
    links = local_links(prefixed.get(path).text)
    assert links
    assert {link for link in links if not link.startswith("/hasse/")} == set()


def test_assets_of_the_page_are_found_with_the_prefix_and_without(prefixed: Client) -> None:
    for link in re.findall(
        r'(?:src|href)="/hasse(/(?:static|images)/[^"]*)"', prefixed.get("/").text
    ):
        assert prefixed.get(f"/hasse{link}").status_code == 200
        assert prefixed.get(link).status_code == 200


def test_answers_under_a_prefix_name_addresses_below_it(prefixed: Client) -> None:
    found = prefixed.post("/hasse/search/images", json={"caption": "a dog", "k": 1}).json()["hits"][
        0
    ]
    assert found["image_url"] == f"/hasse/images/{found['image_id']}/file"
    record = prefixed.get(f"/images/{found['image_id']}").json()
    assert record["thumbnail_url"] == f"/hasse/images/{found['image_id']}/thumbnail"
    assert prefixed.get(record["thumbnail_url"]).status_code == 200
    assert prefixed.get("/hasse/nothing").json()["type"] == "/hasse/docs#not_found"


def test_added_image_under_a_prefix_has_its_location_below_it(tmp_path: Path) -> None:
    settings = Settings(
        library=make_collection(tmp_path), device="cpu", root_path="/hasse", open_writes=True
    )
    with Client(create_app(settings)) as client:
        added = client.post("/images", files={"image": ("a.png", png(77))})
        location = added.headers["location"]
        assert location == f"/hasse/images/{added.json()['image_id']}"
        assert client.get(location).status_code == 200


def test_docs_under_a_prefix_name_it_as_their_server(prefixed: Client) -> None:
    assert prefixed.get("/hasse/docs").status_code == 200
    assert prefixed.get("/hasse/docs/swagger-ui.css").status_code == 200
    document = prefixed.get("/hasse/openapi.json").json()
    assert document["servers"] == [{"url": "/hasse"}]


def test_bare_prefix_is_the_first_page(prefixed: Client) -> None:
    assert prefixed.get("/hasse").text == prefixed.get("/hasse/").text


def test_htmx_answer_under_a_prefix_pushes_an_address_below_it(prefixed: Client) -> None:
    answer = prefixed.get("/hasse/?q=a+dog", headers={"HX-Request": "true"})
    assert answer.headers["hx-push-url"] == "/hasse/?q=a+dog"


@pytest.mark.parametrize(
    ("trusted", "said", "root_path"),
    [
        ("127.0.0.0/8", "/over/here/", "/over/here"),
        ("10.0.0.0/8", "/over/here", ""),
        ("", "/over/here", ""),
        ("127.0.0.1", '/"><script>', ""),
        ("127.0.0.1", "//evil.example", ""),
        ("127.0.0.1", "/", ""),
    ],
)
def test_forwarded_prefix_counts_from_trusted_proxies_only(
    collection: Path, trusted: str, said: str, root_path: str
) -> None:
    settings = Settings(library=collection, device="cpu", trusted_proxies=trusted)
    with Client(create_app(settings)) as client:
        for path in ("/images/1003", f"{root_path}/images/1003"):
            image = client.get(path, headers={"X-Forwarded-Prefix": said}).json()
            assert image["image_url"] == f"{root_path}/images/1003/file"
        assert client.get("/images/1003").json()["image_url"] == "/images/1003/file"


@pytest.mark.parametrize(
    "setting",
    [
        {"root_path": "hasse"},
        {"root_path": "/a b"},
        {"trusted_proxies": "proxy"},
        {"cors_origins": "a.b"},
    ],
)
def test_settings_refuse_what_is_no_prefix_network_or_origin(setting: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        Settings.model_validate(setting)


def test_cors_allows_listed_origins_and_no_others(collection: Path) -> None:
    settings = Settings(
        library=collection, device="cpu", cors_origins="https://a.example, http://b.example:8080"
    )
    asks = {
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type",
    }
    with Client(create_app(settings)) as client:
        for origin, allowed in (("http://b.example:8080", True), ("https://c.example", False)):
            preflight = client.request(
                "OPTIONS", "/search/images", headers={"Origin": origin, **asks}
            )
            answer = client.post(
                "/search/images", json={"caption": "a dog"}, headers={"Origin": origin}
            )
            assert preflight.is_success == allowed
            assert answer.status_code == 200
            for response in (preflight, answer):
                named = response.headers.get("access-control-allow-origin")
                assert named == (origin if allowed else None)
        error = client.get("/nothing", headers={"Origin": "https://a.example"})
        assert error.status_code == 404
        assert error.headers["access-control-allow-origin"] == "https://a.example"


def test_cors_is_off_by_default(client: Client) -> None:
    answer = client.get("/version", headers={"Origin": "https://a.example"})
    assert not [name for name in answer.headers if name.startswith("access-control")]
