"""What is done with pictures on the page, without scripts."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import pytest

from hasse.service.app import create_app
from hasse.service.http.access import fingerprint, new_key
from hasse.service.settings import Settings
from tests.service.client import Client
from tests.service.collection import make_collection, png

KEY = new_key()


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    folder: Path = make_collection(tmp_path_factory.mktemp("doing"))
    settings = Settings(library=folder, device="cpu", write_keys=f"a:{fingerprint(KEY)}")
    with Client(create_app(settings)) as client:
        yield client


def annotate(client: Client, **fields: str) -> tuple[int, str]:
    files = {name: (None, text) for name, text in fields.items()}
    response = client.post("/page/annotate", files=files)
    return response.status_code, response.headers.get("location", "")


def test_caption_and_keyword_are_added_and_taken_away_on_the_page(keyed: Client) -> None:
    fields = {"image": "1003", "key": KEY}
    assert annotate(keyed, text="our dog  Rex", kind="caption", **fields) == (303, "/?image=1003")
    assert annotate(keyed, text="Rex", kind="keyword", **fields)[0] == 303
    page = keyed.get("/?image=1003").text
    assert ">our dog Rex</a>" in page
    assert '<a href="/?q=%22Rex%22">Rex</a>' in page
    assert 'name="key"' in page
    for kind, text in (("keyword", "Rex"), ("caption", "our dog Rex")):
        assert annotate(keyed, text=text, kind=kind, do="remove", **fields)[0] == 303
    page = keyed.get("/?image=1003").text
    assert "Rex" not in page
    assert "a person runs" in page


def test_annotation_without_key_picture_or_kind_is_refused(keyed: Client, client: Client) -> None:
    fields = {"image": "1003", "text": "a dog", "kind": "caption"}
    assert annotate(keyed, **fields)[0] == 403
    assert annotate(keyed, **fields | {"key": KEY, "kind": "x"})[0] == 422
    assert annotate(keyed, **fields | {"key": KEY, "image": ""})[0] == 422
    assert annotate(keyed, **fields | {"key": KEY, "image": "7"})[0] == 404
    assert annotate(client, **fields)[0] == 403
    assert "/page/annotate" not in client.get("/?image=1003").text


def test_export_sends_the_originals_of_the_chosen_pictures(client: Client) -> None:
    files = [("image", (None, one)) for one in ("1003", "1001", "1003")]
    response = client.post("/page/export", files=files)
    assert response.headers["content-disposition"] == 'attachment; filename="hits.zip"'
    with ZipFile(BytesIO(response.content)) as archive:
        found = {name: archive.read(name) for name in archive.namelist()}
    assert found == {"picture-1.png": png(1), "picture-3.png": png(3)}
    assert client.post("/page/export", files=[("image", (None, "x"))]).status_code == 422
