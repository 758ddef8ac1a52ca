"""Sorted hits, and pictures without a question."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from hasse.index.segments.change import Change
from hasse.index.store import Index
from hasse.index.types import ImageRow, Metadata, VersionRow
from hasse.service.app import create_app
from hasse.service.questions.requests import REACH_MAXIMUM
from hasse.service.settings import Settings
from tests.service.client import Client
from tests.service.collection import make_collection

DAY = 86_400_000  # milliseconds
UNDATED = list(range(1011, 999, -1))  # the last added first, also where a date is missing
ORDERS = {
    "newest": [2, 1, 3],
    "oldest": [3, 1, 2],
    "added": [3, 2, 1],
    "rating": [1, 2, 3],
    "folder": [2, 3, 1],
}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A collection with three dated pictures, one of them by its file and one with stars."""
    library = make_collection(tmp_path_factory.mktemp("sorted"))
    times, paths = {1: 400 * DAY, 2: 401 * DAY, 3: 5}, {1: "c.png", 2: "a.png", 3: "b.png"}
    with Index.open(library, threads=1) as index:
        points = np.stack(list(index.points("image", [1000, 1001, 1002]).values()))
        rows = [ImageRow(at, paths[at], paths[at], 64, 48, taken=times[at]) for at in times]
        index.change(Change(rows, points, metadata={1: Metadata(rating=4)}))
    with Client(create_app(Settings(library=library, device="cpu"))) as client:
        yield client


def ask(client: Client, path: str = "/search/images", **request: Any) -> dict[str, Any]:
    response = client.post(path, json=request)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def ids(answer: dict[str, Any]) -> list[int]:
    return [hit["image_id"] for hit in answer["hits"]]


@pytest.mark.parametrize("sort", ORDERS)
def test_images_without_a_caption_are_all_that_filters_select_in_order(
    client: Client, sort: str
) -> None:
    answer = ask(client, sort=sort, image_ids=[1, 2, 3])
    assert ids(answer) == ORDERS[sort]
    assert (answer["searched"], answer["certified"], answer["plan"]) == (3, True, "list")


def test_images_without_a_caption_are_the_newest_first_page_by_page(client: Client) -> None:
    pages = [ask(client, k=4, offset=offset) for offset in range(0, 20, 4)]
    assert [id_ for page in pages for id_ in ids(page)] == [2, 1, 3, *UNDATED]
    assert [hit["rank"] for hit in pages[1]["hits"]] == [5, 6, 7, 8]
    assert ids(ask(client, offset=5 * REACH_MAXIMUM)) == []


def test_hit_says_when_it_was_taken_and_whether_its_file_or_the_picture_says_so(
    client: Client,
) -> None:
    dates = {
        hit["image_id"]: (hit["taken"], hit["dated_by"])
        for hit in ask(client, image_ids=[1, 3, 1000])["hits"]
    }
    assert dates == {
        1: ("1971-02-05T00:00:00", "picture"),
        3: ("1970-01-01T00:00:00", "file"),
        1000: (None, None),
    }


@pytest.mark.parametrize("sort", ORDERS)
def test_sorted_hits_are_those_that_show_or_say_it(client: Client, sort: str) -> None:
    request: dict[str, Any] = {"caption": "a dog", "k": 100, "image_ids": [1, 2, 3, *UNDATED]}
    best = ask(client, **request)
    true = {
        hit["image_id"] for hit in best["hits"] if (hit["probability"] or 0) >= 0.2 or hit["says"]
    }
    answer = ask(client, sort=sort, **request)
    assert set(ids(answer)) == true
    assert [id_ for id_ in ids(answer) if id_ < 1000] == [
        id_ for id_ in ORDERS[sort] if id_ in true
    ]
    assert [hit["rank"] for hit in answer["hits"]] == list(range(1, len(true) + 1))
    assert answer["certified"]


@pytest.mark.parametrize("sort", ["newest", "folder"])
def test_pages_of_sorted_hits_divide_them(client: Client, sort: str) -> None:
    whole = ids(ask(client, caption="a dog", sort=sort, k=100))
    pages = [ask(client, caption="a dog", sort=sort, k=2, offset=at) for at in range(0, 20, 2)]
    assert [id_ for page in pages for id_ in ids(page)] == whole


@pytest.mark.parametrize(
    ("path", "request_fields"),
    [
        ("/search/all_of", {"all_of": ["a dog", "a park"]}),
        ("/search/like", {"like": 1000}),
    ],
)
def test_other_searches_for_images_sort_their_hits(
    client: Client, path: str, request_fields: dict[str, Any]
) -> None:
    hits = ids(ask(client, path, sort="oldest", k=100, **request_fields))
    dated = [id_ for id_ in hits if id_ < 1000]
    assert dated == [id_ for id_ in ORDERS["oldest"] if id_ in dated]


def test_search_without_a_caption_can_be_saved_and_counts_its_pictures(tmp_path: Any) -> None:
    library = make_collection(tmp_path)
    with Client(create_app(Settings(library=library, device="cpu", open_writes=True))) as client:
        saved = client.request("PUT", "/searches/all", json={"sort": "oldest"})
        assert saved.status_code == 201, saved.text
        assert saved.json()["count"] == 12


def test_versions_of_a_picture_are_listed_once_unless_all_are_wanted(tmp_path: Any) -> None:
    library = make_collection(tmp_path)
    with Index.open(library, threads=1) as index:
        index.change(Change(versions=[VersionRow(id_, "00", 1003) for id_ in (1003, 1005)]))
    with Client(create_app(Settings(library=library, device="cpu"))) as client:
        answer = ask(client, k=100)
        assert answer["searched"] == len(answer["hits"]) == 11
        (hit,) = (hit for hit in answer["hits"] if hit["image_id"] == 1003)
        assert [version["image_id"] for version in hit["versions"]] == [1005]
        assert ask(client, versions="all")["searched"] == 12
