"""Saved searches: over HTTP, by the clients and in the catalog."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote
from xml.etree import ElementTree

import httpx
import numpy as np
import pytest

from hasse.index.catalog.searches import delete_search, save_search, saved_searches
from hasse.index.store import Index
from hasse.index.types import CaptionRow, ImageRow
from hasse.service.app import create_app
from hasse.service.http.access import fingerprint, new_key
from hasse.service.settings import Settings
from tests.service.client import Client
from tests.service.collection import make_collection
from tests.service.problems import problem

FELIX = {"caption": "felix", "evidence": "says"}
ATOM = "{http://www.w3.org/2005/Atom}"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collection of its own, without a picture of Felix."""
    return make_collection(tmp_path_factory.mktemp("searches") / "collection")


@pytest.fixture(scope="module")
def running(place: Path) -> Iterator[Client]:
    settings = Settings(library=place, device="cpu", open_writes=True, deadline_seconds=60)
    with Client(create_app(settings)) as client:
        yield client


@pytest.fixture
def writable(running: Client) -> Client:
    """An application without saved searches and without pictures of Felix."""
    index = running.engine.index
    for one in saved_searches(index.catalog):
        delete_search(index.catalog, one.name)
    if left := sorted(index.catalog.images(range(50_001, 50_010))):
        index.remove(left)
    return running


def add_felix(client: Client, id_: int, name: str = "cat.jpg") -> None:
    """Add an image whose caption names Felix."""
    index = client.engine.index
    point = np.full((1, index.model.dimension), 0.1, np.float32)
    caption = CaptionRow(id_, id_, "our cat Felix")
    index.add([ImageRow(id_, name, name)], point, [caption], point)


def put(client: Client, name: str = "felix") -> httpx.Response:
    return client.request("PUT", f"/searches/{name}", json=FELIX)


def listed(client: Client) -> list[tuple[str, int, int]]:
    found = client.get("/searches").json()["searches"]
    return [(one["name"], one["count"], one["new"]) for one in found]


def test_saved_search_counts_new_images_until_they_are_marked_as_seen(writable: Client) -> None:
    assert put(writable).status_code == 201
    assert listed(writable) == [("felix", 0, 0)]
    add_felix(writable, 50_001)
    add_felix(writable, 50_002)
    assert listed(writable) == [("felix", 2, 2)]
    found = writable.get("/searches/felix").json()
    assert sorted(found["new_image_ids"]) == [50_001, 50_002]
    assert sorted(hit["image_id"] for hit in found["answer"]["hits"]) == [50_001, 50_002]
    assert writable.post("/searches/felix/looked").status_code == 204
    assert listed(writable) == [("felix", 2, 0)]
    writable.engine.index.remove([50_001])
    assert listed(writable) == [("felix", 1, 0)]


def test_put_of_a_known_name_takes_its_place_and_what_it_finds_is_seen(writable: Client) -> None:
    put(writable)
    add_felix(writable, 50_001)
    replaced = writable.request("PUT", "/searches/felix", json={"caption": "cat", **FELIX})
    assert (replaced.status_code, replaced.json()["new"]) == (200, 0)
    assert replaced.json()["search"]["caption"] == "felix"


def test_search_that_is_forgotten_is_gone_and_unknown_ones_are_not_found(writable: Client) -> None:
    put(writable)
    assert writable.request("DELETE", "/searches/felix").status_code == 204
    assert listed(writable) == []
    for method, path in (("DELETE", ""), ("GET", ""), ("GET", "/feed"), ("POST", "/looked")):
        problem(writable.request(method, f"/searches/felix{path}"), 404, "not_found")


def test_feed_names_the_newest_first_and_writes_any_file_name(writable: Client) -> None:
    put(writable, "ö <& 1")
    add_felix(writable, 50_001)
    add_felix(writable, 50_002, 'a <b> & "c"\x07.jpg')
    answer = writable.get("/searches/ö <& 1/feed")
    assert answer.headers["content-type"] == "application/atom+xml"
    feed = ElementTree.fromstring(answer.content)  # noqa: S314 - our own
    assert feed.findtext(f"{ATOM}title") == "ö <& 1"
    titles = [entry.findtext(f"{ATOM}title") for entry in feed.iter(f"{ATOM}entry")]
    assert titles == ['a <b> & "c"\N{REPLACEMENT CHARACTER}.jpg', "cat.jpg"]
    assert len({entry.findtext(f"{ATOM}id") for entry in feed.iter(f"{ATOM}entry")}) == 2


@pytest.mark.parametrize("name", ["a/b", "@a", ".a", " a", "a" * 101, "a\n"])
def test_name_that_no_address_or_command_can_carry_is_refused(writable: Client, name: str) -> None:
    answer = put(writable, quote(name, safe=""))
    assert answer.status_code in (404, 422)
    assert listed(writable) == []


def test_too_many_searches_are_refused_and_those_there_can_be_changed(
    writable: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hasse.service.questions.saved.SAVED_MAXIMUM", 1)
    put(writable)
    problem(put(writable, "another"), 422, "invalid")
    assert put(writable).status_code == 200


def test_search_that_the_model_cannot_answer_any_more_finds_nothing(writable: Client) -> None:
    save_search(writable.engine.index.catalog, "x", '{"caption":"zzz","evidence":"shows"}', [])
    assert listed(writable) == [("x", 0, 0)]


@pytest.mark.usefixtures("writable")  # which deletes the searches of other tests
def test_saving_a_search_needs_a_key_to_write_and_listing_one_to_read(place: Path) -> None:
    reader, writer = new_key(), new_key()
    settings = Settings(
        library=place,
        device="cpu",
        read_keys=f"r:{fingerprint(reader)}",
        write_keys=f"w:{fingerprint(writer)}",
    )
    with Client(create_app(settings)) as client:
        for key, status in (("", 401), (reader, 403), (writer, 201)):
            answer = client.request(
                "PUT", "/searches/felix", json=FELIX, headers={"X-API-Key": key}
            )
            assert answer.status_code == status
        assert client.get("/searches").status_code == 401
        assert client.get("/searches", headers={"X-API-Key": reader}).status_code == 200


def test_saved_search_survives_a_change_and_another_opening(writable: Client, place: Path) -> None:
    assert listed(writable) == []
    with Index.open(place) as index:
        save_search(index.catalog, "felix", '{"caption":"felix"}', [3, 1])
        index.remove([1003])
    with Index.open(place) as index:
        (one,) = saved_searches(index.catalog)
        assert (one.name, one.seen) == ("felix", frozenset([1, 3]))
