"""An answer belongs to one generation, also when the collection changes in the middle of it."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hasse.index.search.query import Answer
from hasse.index.segments.compaction import everything
from hasse.index.store import Index
from hasse.index.types import ImageRow
from hasse.service.app import create_app
from hasse.service.settings import Settings
from tests.service.client import Client
from tests.service.collection import IMAGES, png


@pytest.fixture
def own(collection: Path, tmp_path: Path) -> Path:
    """A copy of the collection that a test may change."""
    shutil.copytree(collection, tmp_path / "index")
    return tmp_path / "index"


def deleting(client: Client, image_ids: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """After each of the next searches, one image is gone before its row is read."""
    index = client.engine.index
    search = index.search_batch

    def search_then_delete(*given: Any, **options: Any) -> Sequence[Answer]:
        found: Sequence[Answer] = search(*given, **options)
        if image_ids:
            index.remove([image_ids.pop()])
        return found

    monkeypatch.setattr(index, "search_batch", search_then_delete)


def replacing(
    client: Client, image_ids: list[int], monkeypatch: pytest.MonkeyPatch, *, followed: bool
) -> None:
    """After each of the next searches, another process gives an id to another picture.

    It leaves no trace of the former one, whether or not the service has `followed` by then.
    """
    index = client.engine.index
    search = index.search_batch

    def search_then_replace(*given: Any, **options: Any) -> Sequence[Answer]:
        found: Sequence[Answer] = search(*given, **options)
        if image_ids:
            with Index.open(index.folder, threads=1) as other:
                _replace(other, image_ids.pop())
                if followed:
                    index.refresh()
                other.compact(everything)
        return found

    monkeypatch.setattr(index, "search_batch", search_then_replace)


def _replace(index: Index, image_id: int) -> None:
    """Remove an image and its captions, and add others of the same ids."""
    captions = [
        row._replace(text="none") for row in index.catalog.captions_of([image_id])[image_id]
    ]
    points = np.eye(1 + len(captions), index.model.dimension, dtype=np.float32)
    index.remove([image_id])
    index.add([ImageRow(image_id, "another.png", "")], points[:1], captions, points[1:])


def test_hits_deleted_during_a_search_are_of_no_answer(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Client(create_app(Settings(library=own, device="cpu"))) as client:
        deleting(client, [1003, 1007], monkeypatch)
        answer = client.post("/search/images", json={"caption": "a dog", "k": 50}).json()
        assert answer["generation"] == 3
        assert answer["searched"] == IMAGES - 2
        assert {hit["image_id"] for hit in answer["hits"]} == (
            set(range(1000, 1000 + IMAGES)) - {1003, 1007}
        )
        assert [hit["rank"] for hit in answer["hits"]] == list(range(1, IMAGES - 1))
        assert all(len(hit["captions"]) == 2 for hit in answer["hits"])


def test_captions_deleted_during_a_search_are_of_no_answer(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Client(create_app(Settings(library=own, device="cpu"))) as client:
        deleting(client, [1003], monkeypatch)
        form = {"image": ("a.png", png(1))}
        answer = client.post(
            "/search/captions", files=form, data={"k": "50", "distinct": "false"}
        ).json()
        assert answer["generation"] == 2
        assert len(answer["hits"]) == answer["searched"] == 2 * (IMAGES - 1)
        assert 1003 not in {hit["image_id"] for hit in answer["hits"]}


@pytest.mark.parametrize("followed", [False, True])
def test_hit_whose_id_became_another_picture_is_not_described_as_that(
    own: Path, monkeypatch: pytest.MonkeyPatch, *, followed: bool
) -> None:
    with Client(create_app(Settings(library=own, device="cpu", refresh_seconds=60))) as client:
        asked = {"caption": "a dog", "k": 50}
        before = client.post("/search/images", json=asked).json()
        replacing(client, [1003], monkeypatch, followed=followed)
        answer = client.post("/search/images", json=asked).json()
        after = client.post("/search/images", json=asked).json()
        assert before["generation"] < answer["generation"] == after["generation"]
        assert answer["hits"] == after["hits"] != before["hits"]


@pytest.mark.parametrize("followed", [False, True])
def test_caption_whose_id_became_another_caption_is_not_described_as_that(
    own: Path, monkeypatch: pytest.MonkeyPatch, *, followed: bool
) -> None:
    with Client(create_app(Settings(library=own, device="cpu", refresh_seconds=60))) as client:
        asked = {"files": {"image": ("a.png", png(1))}, "data": {"k": "50"}}
        before = client.post("/search/captions", **asked).json()
        replacing(client, [1003], monkeypatch, followed=followed)
        answer = client.post("/search/captions", **asked).json()
        after = client.post("/search/captions", **asked).json()
        assert before["generation"] < answer["generation"] == after["generation"]
        assert answer["hits"] == after["hits"] != before["hits"]
