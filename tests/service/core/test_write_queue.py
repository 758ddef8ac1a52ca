"""The ledger: the changes of one batch are planned together, and each is refused alone."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from index.errors import BadRowsError, CatalogUnreachableError
from index.store import Index
from index.types import ImageRow
from service.core.write_queue import Arrival, Ledger, Removal, Stored
from service.errors import ServiceError
from service.schemas import ID_MAXIMUM
from tests.service.collection import make_collection, png


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    with Index.open(make_collection(tmp_path), threads=1) as index:
        yield index


def arrival(index: Index, seed: int, image_id: int | None = None, **given: Any) -> Arrival:
    picture, point = png(seed), np.ones(index.model.dimension, np.float32)
    return Arrival(
        picture=picture,
        sha256=hashlib.sha256(picture).hexdigest(),
        suffix=".png",
        file_name=given.pop("file_name", "a.png"),
        width=64,
        height=48,
        split="",
        image_id=image_id,
        point=point,
        captions=[],
        caption_points=np.empty((0, index.model.dimension), np.float32),
        **given,
    )


def add(index: Index, *arrivals: Arrival) -> list[int | str]:
    """Return the ids that pictures got, and why others got none."""
    said: list[int | str] = []
    for outcome in Ledger(index, lambda: None).run("add", arrivals):
        if isinstance(outcome, ServiceError):
            said.append(outcome.detail)
        else:
            assert isinstance(outcome, Stored)
            said.append(outcome.row.id)
    return said


def test_ids_that_are_given_in_one_batch_are_larger_than_all_that_are_chosen_in_it(
    index: Index,
) -> None:
    chosen = (None, 5000, 7, None, None, 5000)
    said = add(index, *(arrival(index, 50 + at, one) for at, one in enumerate(chosen)))
    assert said == [1012, 5000, 7, 5001, 5002, "another picture is the image 5000 already"]
    assert said[:5] == [row.id for row in map(index.image, [1012, 5000, 7, 5001, 5002]) if row]


def test_a_picture_that_comes_twice_in_one_batch_is_one_image_with_each_caption_once(
    index: Index,
) -> None:
    points = np.ones((2, index.model.dimension), np.float32)
    twice = [
        replace(arrival(index, 50), captions=captions, caption_points=points)
        for captions in (["a dog", "a cat"], ["a cat", "a child"])
    ]
    said = add(index, *twice, arrival(index, 50, 7))
    assert said == [1012, 1012, "this picture is the image 1012 already"]
    texts = [row.text for row in index.captions_of([1012])[1012]]
    assert texts == ["a dog", "a cat", "a child"]


def test_where_no_larger_id_is_left_one_has_to_be_chosen(index: Index) -> None:
    assert add(index, arrival(index, 50, ID_MAXIMUM - 1)) == [ID_MAXIMUM - 1]
    said = add(index, arrival(index, 51), arrival(index, 52), arrival(index, 53, 7))
    assert said == [ID_MAXIMUM, "there is no larger id left: send one as image_id", 7]


def test_a_picture_without_a_name_is_called_by_its_id(index: Index) -> None:
    assert add(index, arrival(index, 50, file_name="")) == [1012]
    row = index.image(1012)
    assert row is not None
    assert row.file_name == "1012.png"


def test_an_id_that_another_process_takes_meanwhile_is_not_given(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = index.add

    def taken_first(*rows: Any, **more: Any) -> None:
        monkeypatch.setattr(index, "add", put)
        point = np.ones((1, index.model.dimension), np.float32)
        with Index.open(index.folder, threads=1) as other:
            other.add([ImageRow(1012, "b.png", "b.png")], point)
        put(*rows, **more)

    monkeypatch.setattr(index, "add", taken_first)
    assert add(index, arrival(index, 50)) == [1013]
    row = index.image(1013)
    assert row is not None
    assert index.path_of(row).read_bytes() == png(50)


def test_what_others_take_again_and_again_is_given_up_and_not_acknowledged(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    def taken(*_: object, **__: object) -> None:
        raise BadRowsError("there is an image with the id 1012 already")

    monkeypatch.setattr(index, "add", taken)
    with pytest.raises(BadRowsError):
        add(index, arrival(index, 50))
    assert not list(index.folder.glob("pictures/*/*"))


def test_the_picture_of_an_image_is_kept_where_nobody_was_told_that_it_is_there(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = index.add

    def cut_off(*rows: Any, **more: Any) -> None:
        put(*rows, **more)
        raise CatalogUnreachableError("no answer")

    monkeypatch.setattr(index, "add", cut_off)
    with pytest.raises(CatalogUnreachableError):
        add(index, arrival(index, 50))
    row = index.image(1012)
    assert row is not None
    assert index.path_of(row).read_bytes() == png(50)


def test_of_removals_of_one_image_in_one_batch_the_first_removes_it(index: Index) -> None:
    removals = [Removal(image_id) for image_id in (1000, 1001, 1000, 77)]
    outcomes = Ledger(index, lambda: None).run("remove", removals)
    said = [one.detail if isinstance(one, ServiceError) else one for one in outcomes]
    assert said[:2] == [None, None]
    assert said[2:] == [f"there is no image with the id {image_id}" for image_id in (1000, 77)]
    assert index.images([1000, 1001]) == {}


@pytest.mark.parametrize("lane", ["add", "remove"])
def test_the_lock_is_waited_for_from_the_time_that_the_first_of_a_batch_came(
    index: Index, monkeypatch: pytest.MonkeyPatch, lane: Any
) -> None:
    patiences = []

    def changed(*_: object, patience: float) -> None:
        patiences.append(patience)

    monkeypatch.setattr(index, lane, changed)
    ledger, now = Ledger(index, lambda: None), time.monotonic()

    def change(at: int, waited: float) -> Arrival | Removal:
        since = now - waited
        return arrival(index, at, since=since) if lane == "add" else Removal(1000 + at, since)

    ledger.run(lane, [change(0, 0), change(1, 8), change(2, 1)])
    ledger.run(lane, [change(0, 60)])
    assert patiences[0] <= 2
    assert patiences[1] == 0
