"""A batch of writes is planned together; each write is refused on its own."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hasse.index.errors import BadRowsError, CatalogUnreachableError
from hasse.index.segments.change import Change
from hasse.index.segments.writer import Writer
from hasse.index.store import Index
from hasse.index.types import ImageRow
from hasse.models.images.inspection import PictureFacts
from hasse.service.errors import ServiceError
from hasse.service.schemas import ID_MAXIMUM
from hasse.service.writing.batch_writer import BatchWriter, Deletion, NewImage, StoredImage
from tests.service.collection import make_collection, png


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    with Index.open(make_collection(tmp_path), threads=1) as index:
        yield index


def new_image(index: Index, seed: int, image_id: int | None = None, **given: Any) -> NewImage:
    picture, point = png(seed), np.ones(index.model.dimension, np.float32)
    sha256 = hashlib.sha256(picture).hexdigest()
    return NewImage(
        picture=picture,
        facts=PictureFacts(sha256, ".png", 64, 48, None),
        file_name=given.pop("file_name", "a.png"),
        split="",
        image_id=image_id,
        point=point,
        captions=[],
        caption_points=np.empty((0, index.model.dimension), np.float32),
        **given,
    )


def add(index: Index, *new: NewImage) -> list[int | str]:
    """Return the ids of the added pictures, and why the others were refused."""
    said: list[int | str] = []
    for result in BatchWriter(index, lambda: None).run("add", new):
        if isinstance(result, ServiceError):
            said.append(result.detail)
        else:
            assert isinstance(result, StoredImage)
            said.append(result.image.row.id)
    return said


def test_add_assigns_ids_larger_than_those_chosen_in_the_batch(
    index: Index,
) -> None:
    chosen = (None, 5000, 7, None, None, 5000)
    said = add(index, *(new_image(index, 50 + at, one) for at, one in enumerate(chosen)))
    assert said == [1012, 5000, 7, 5001, 5002, "image 5000 is already another picture"]
    known = index.catalog.images([1012, 5000, 7, 5001, 5002])
    assert set(said[:5]) == set(known)


def test_add_same_picture_twice_in_a_batch_makes_one_image(
    index: Index,
) -> None:
    points = np.ones((2, index.model.dimension), np.float32)
    twice = [
        replace(new_image(index, 50), captions=captions, caption_points=points)
        for captions in (["a dog", "a cat"], ["a cat", "a child"])
    ]
    said = add(index, *twice, new_image(index, 50, 7))
    assert said == [1012, 1012, "this picture is already image 1012"]
    texts = [row.text for row in index.catalog.captions_of([1012])[1012]]
    assert texts == ["a dog", "a cat", "a child"]


def test_add_beside_an_id_far_away_goes_on_after_the_others(index: Index) -> None:
    assert add(index, new_image(index, 50, ID_MAXIMUM - 1)) == [ID_MAXIMUM - 1]
    said = add(index, new_image(index, 51), new_image(index, 53, 1), new_image(index, 52))
    assert said == [1012, 1, 1013]


def test_add_picture_without_name_is_named_by_its_id(index: Index) -> None:
    assert add(index, new_image(index, 50, file_name="")) == [1012]
    row = index.catalog.images([1012])[1012]
    assert row is not None
    assert row.file_name == "1012.png"


def test_add_after_another_process_took_the_next_id_gets_another(index: Index) -> None:
    point = np.ones((1, index.model.dimension), np.float32)
    with Index.open(index.folder, threads=1) as other:
        other.add([ImageRow(1012, "b.png", "b.png")], point)
    assert add(index, new_image(index, 50)) == [1013]
    row = index.catalog.images([1013])[1013]
    assert row is not None
    assert index.path_of(row).read_bytes() == png(50)


def test_add_that_is_refused_leaves_no_stored_file(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise BadRowsError("image 1012 is in the index already")

    monkeypatch.setattr(Writer, "change", refused)
    with pytest.raises(BadRowsError):
        add(index, new_image(index, 50))
    assert not list(index.folder.glob("pictures/*/*"))


def test_add_committed_but_unacknowledged_keeps_the_picture(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = Writer.change

    def cut_off(writer: Writer, change: Change) -> None:
        put(writer, change)
        raise CatalogUnreachableError("no answer")

    monkeypatch.setattr(Writer, "change", cut_off)
    with pytest.raises(CatalogUnreachableError):
        add(index, new_image(index, 50))
    row = index.catalog.images([1012])[1012]
    assert row is not None
    assert index.path_of(row).read_bytes() == png(50)


def test_remove_same_image_twice_in_a_batch_succeeds_once(index: Index) -> None:
    deletions = [Deletion(image_id) for image_id in (1000, 1001, 1000, 77)]
    results = BatchWriter(index, lambda: None).run("remove", deletions)
    said = [one.detail if isinstance(one, ServiceError) else one for one in results]
    assert said[:2] == [None, None]
    assert said[2:] == [f"there is no image with the id {image_id}" for image_id in (1000, 77)]
    assert index.catalog.images([1000, 1001]) == {}


@pytest.mark.parametrize("operation", ["add", "remove"])
def test_lock_wait_counts_from_the_oldest_write_of_the_batch(
    index: Index, monkeypatch: pytest.MonkeyPatch, operation: Any
) -> None:
    waits, hold = [], index.writing

    def noted(timeout: float) -> AbstractContextManager[Writer]:
        waits.append(timeout)
        return hold(timeout)

    monkeypatch.setattr(index, "writing", noted)
    writer, now = BatchWriter(index, lambda: None), time.monotonic()

    def change(at: int, waited: float) -> NewImage | Deletion:
        queued_at = now - waited
        return (
            new_image(index, at, queued_at=queued_at)
            if operation == "add"
            else Deletion(1000 + at, queued_at)
        )

    writer.run(operation, [change(0, 0), change(1, 8), change(2, 1)])
    writer.run(operation, [change(0, 60)])
    assert waits[0] <= 2
    assert waits[1] == 0
