"""Versions of one picture are one hit of every search for images."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hasse.index.segments.change import Change
from hasse.index.store import Index
from hasse.index.types import VersionRow
from hasse.service.app import create_app
from hasse.service.settings import Settings
from tests.service.client import Client
from tests.service.collection import IMAGES, make_collection, png


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collection of which the images 1003, 1005 and 1008 show the same picture."""
    made = make_collection(tmp_path_factory.mktemp("collection"))
    with Index.open(made) as index:
        rows = [VersionRow(id_, "00", 1003) for id_ in (1003, 1005, 1008)]
        index.change(Change(versions=rows))
    return made


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[Client]:
    settings = Settings(library=folder, device="cpu", deadline_seconds=60)
    with Client(create_app(settings)) as client:
        yield client


def hits(client: Client, path: str, **request: Any) -> dict[int, list[int]]:
    answer = client.post(path, json={"k": 50, **request})
    assert answer.status_code == 200, answer.text
    return {
        hit["image_id"]: [version["image_id"] for version in hit["versions"]]
        for hit in answer.json()["hits"]
    }


@pytest.mark.parametrize(
    ("path", "request_"),
    [
        ("/search/images", {"caption": "a dog"}),
        ("/search/all_of", {"all_of": ["a dog", "a cat"]}),
        ("/search/like", {"like": "a dog", "plus": ["a cat"]}),
    ],
)
def test_search_for_images_has_one_hit_for_a_picture_unless_all_are_asked_for(
    path: str, request_: dict[str, Any], client: Client
) -> None:
    one = hits(client, path, **request_)
    assert len(one) == IMAGES - 2
    ((first, others),) = [pair for pair in one.items() if pair[1]]
    assert sorted([first, *others]) == [1003, 1005, 1008]
    every = hits(client, path, **request_, versions="all")
    assert len(every) == IMAGES
    assert not any(every.values())


def test_versions_of_a_hit_have_their_paths(client: Client) -> None:
    answer = client.post("/search/images", json={"caption": "a dog", "k": 50}).json()
    for hit in answer["hits"]:
        for version in hit["versions"]:
            record = client.get(f"/images/{version['image_id']}").json()
            assert version["path"] == record["path"]


def test_what_is_like_an_image_has_no_version_of_it(client: Client) -> None:
    like = hits(client, "/search/like", like=1005, plus=["a cat"])
    assert not {1003, 1005, 1008} & set(like)
    assert len(like) == IMAGES - 3


def test_search_by_a_picture_has_one_version(client: Client) -> None:
    answer = client.post("/search/images", files={"image": png(5)}, data={"k": "50"})
    found = {hit["image_id"] for hit in answer.json()["hits"]}
    assert len(found & {1003, 1005, 1008}) == 1
