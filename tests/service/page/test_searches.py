"""Saved searches on the page, without scripts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest

from hasse.index.types import CaptionRow, ImageRow
from hasse.service.app import create_app
from hasse.service.http.access import fingerprint, new_key
from hasse.service.settings import Settings
from tests.service.client import Client
from tests.service.collection import make_collection
from tests.service.page.markup import HTMX, Tags, said

KEY = new_key()
NAME = 'our <b>"cat" & 100 %'


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    folder: Path = make_collection(tmp_path_factory.mktemp("kept"))
    settings = Settings(library=folder, device="cpu", write_keys=f"a:{fingerprint(KEY)}")
    with Client(create_app(settings)) as client:
        yield client


def post(client: Client, path: str = "", **fields: str) -> httpx.Response:
    files = {name: (None, value) for name, value in fields.items()}
    return client.post(f"/page/searches{path}", files=files)


def test_search_of_an_answer_is_saved_shown_and_deleted(keyed: Client) -> None:
    answer = keyed.get("/", params={"q": "felix"})
    typed = {one.get("name") for one in Tags(answer.text).of("input")}
    assert {"q", "name", "evidence", "key"} <= typed
    kept = post(keyed, q="felix", evidence="says", name=NAME, key=KEY)
    assert kept.status_code == 303
    index = keyed.engine.index
    point = np.full((1, index.model.dimension), 0.1, np.float32)
    caption = CaptionRow(50_001, 50_001, "Felix")
    index.add([ImageRow(50_001, "a.jpg", "a.jpg")], point, [caption], point)
    shown = keyed.get(kept.headers["location"])
    assert f"Pictures of which this is said {NAME}" in said(shown)
    assert "felix · saved; 1 new since" in said(shown)
    assert {"/?image=50001"} <= {one.get("href") for one in Tags(shown.text).of("a")}
    home = keyed.get("/")
    assert NAME in said(home)
    assert f"@{NAME}" in [one.get("value") for one in Tags(home.text).of("option")]
    assert f"{NAME} 1 · 1 new" in said(keyed.get("/page/searches", headers=HTMX))
    assert post(keyed, "/looked", name=NAME, key=KEY).status_code == 303
    assert "none new since" in said(keyed.get(kept.headers["location"]))
    assert post(keyed, "/forget", name=NAME, key=KEY).status_code == 303
    gone = keyed.get(kept.headers["location"])
    assert (gone.status_code, "There is no search of this name" in said(gone)) == (422, True)


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"q": "felix", "name": "a"}, 403),
        ({"q": "felix", "name": "a", "key": "wrong"}, 403),
        ({"q": "felix", "name": "a/b", "key": KEY}, 422),
        ({"q": "felix", "name": "", "key": KEY}, 422),
    ],
)
def test_search_that_cannot_be_saved_is_refused_in_words(
    keyed: Client, fields: dict[str, str], status: int
) -> None:
    answer = post(keyed, **fields)
    assert answer.status_code == status
    assert "www-authenticate" not in answer.headers
    assert "<h1" in answer.text
    assert keyed.get("/searches").json() == {"searches": []}


def test_service_that_takes_no_writes_offers_to_keep_nothing(client: Client) -> None:
    assert "Save this search" not in client.get("/", params={"q": "a dog"}).text
    assert post(client, q="a dog", name="a").status_code == 403


def test_name_that_is_being_typed_replaces_nothing(client: Client) -> None:
    answer = client.get("/", params={"q": "@fe"}, headers={**HTMX, "Hasse-Draft": "1"})
    assert answer.status_code == 204
