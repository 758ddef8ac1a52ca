"""The form that adds a picture, without scripts."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from hasse.service.app import create_app
from hasse.service.http.access import fingerprint, new_key
from hasse.service.settings import Settings
from hasse.service.telemetry import logs
from tests.service.client import Client
from tests.service.collection import make_collection, png

KEY = new_key()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_collection(tmp_path_factory.mktemp("adding"))


@pytest.fixture(scope="module")
def keyed(folder: Path) -> Iterator[Client]:
    settings = Settings(library=folder, device="cpu", write_keys=f"a:{fingerprint(KEY)}")
    with Client(create_app(settings)) as client:
        yield client


def test_add_page_without_writes_is_forbidden_and_not_linked(client: Client) -> None:
    assert "/page/add" not in client.get("/").text
    for response in (
        client.get("/page/add"),
        client.post("/page/add", files={"image": ("a.png", png(70))}),
    ):
        assert response.status_code == 403
        assert '<form id="add"' not in response.text
        assert '<a class="again" href="/">Go to the first page</a>' in response.text


def test_add_picture_twice_reports_added_then_known(keyed: Client) -> None:
    assert "/page/add" in keyed.get("/").text
    fields = {"key": f" {KEY}\n", "captions": "a dog in the park\r\n\r\n  a red animal \r\n"}
    for said in ("Added", "It was here already"):
        response = keyed.post("/page/add", data=fields, files={"image": ("<b>.png", png(71))})
        assert response.status_code == 200
        assert f"{said}: " in response.text
        assert "&lt;b&gt;.png" in response.text
        assert "with 2 captions" in response.text
        assert KEY not in response.text
    hits = keyed.post("/search/images", json={"caption": "a dog in the park", "k": 50}).json()
    assert ["a dog in the park", "a red animal"] in [hit["captions"] for hit in hits["hits"]]


@pytest.mark.parametrize(
    ("key", "content", "status", "words"),
    [
        ("", png(72), 403, "Type the key"),
        ("wrong", png(72), 403, "This key is not known here"),
        ("käse ☃", png(72), 403, "This key is not known here"),
        (KEY, b"text", 415, "not a picture Hasse can read"),
        (KEY, b"", 415, "not a picture Hasse can read"),
    ],
    ids=["none", "wrong", "letters", "text", "empty"],
)
def test_add_that_fails_keeps_what_was_typed(
    keyed: Client, key: str, content: bytes, status: int, words: str
) -> None:
    data = {"key": key, "captions": "a <dog>"}
    response = keyed.post("/page/add", data=data, files={"image": ("a.png", content)})
    assert response.status_code == status
    assert words in response.text
    assert "a &lt;dog&gt;</textarea>" in response.text
    assert not key or key not in response.text


def test_add_too_many_captions_counts_them(keyed: Client) -> None:
    data = {"key": KEY, "captions": "a dog\n" * 40}
    response = keyed.post("/page/add", data=data, files={"image": ("a.png", png(73))})
    assert response.status_code == 422
    assert "<b>That cannot be added.</b> There may be at most 32 of these, not 40." in response.text
    assert response.text.count("a dog\n") == 40, "what was typed stays"


def test_add_picture_logs_the_name_of_the_key(keyed: Client) -> None:
    logs.flush(60)  # what came before
    out = io.StringIO()
    logs.configure("json", stream=out)
    keyed.post("/page/add", data={"key": KEY}, files={"image": ("a.png", png(74))})
    logs.flush(60)
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [line["key"] for line in lines if line["event"] == "request"] == ["a"]


def test_add_page_with_open_writes_asks_for_no_key(tmp_path: Path) -> None:
    settings = Settings(library=make_collection(tmp_path), device="cpu", open_writes=True)
    with Client(create_app(settings)) as client:
        assert 'name="key"' not in client.get("/page/add").text
        response = client.post("/page/add", files={"image": ("a.png", png(73))})
        assert "Added: " in response.text


def test_add_page_with_open_writes_and_read_keys_asks_for_a_key(
    tmp_path: Path,
) -> None:
    index = make_collection(tmp_path)
    keys = f"bob:{fingerprint(KEY)}"
    settings = Settings(library=index, device="cpu", open_writes=True, read_keys=keys)
    with Client(create_app(settings)) as client:
        browser = {"auth": ("any", KEY)}
        assert 'name="key"' in client.get("/page/add", **browser).text
        form = {"files": {"image": ("a.png", png(73))}, **browser}
        none = client.post("/page/add", **form)
        assert none.status_code == 403
        assert "Type the key" in none.text
        assert "Added: " in client.post("/page/add", data={"key": KEY}, **form).text


@pytest.mark.parametrize("open_writes", [True, False])
def test_first_page_of_an_empty_collection_says_how_to_add_pictures(
    tmp_path: Path, open_writes: bool
) -> None:
    index = make_collection(tmp_path)
    settings = Settings(library=index, device="cpu", open_writes=True)
    with Client(create_app(settings)) as client:
        hits = client.post("/search/images", json={"caption": "a dog", "k": 50}).json()["hits"]
        for hit in hits:
            assert client.request("DELETE", f"/images/{hit['image_id']}").status_code == 204
    with Client(create_app(settings.model_copy(update={"open_writes": open_writes}))) as client:
        page = client.get("/").text
        assert "There are no pictures in this collection yet" in page
        assert "hasse add FOLDER" in page
        assert ('<form id="add"' in page) is open_writes
        assert ("/static/add.js" in page) is open_writes
