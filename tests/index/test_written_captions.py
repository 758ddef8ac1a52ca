"""Captions that a model wrote: which searches find them, and when they go."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hasse.index.catalog.selection import Selection
from hasse.index.search.query import Query
from hasse.index.segments.change import Change
from hasse.index.store import Index
from hasse.index.types import MODES, CaptionRow, ImageRow, ModelIdentity
from hasse.index.verify import verify

MODEL = ModelIdentity("m", "f", 8, "order")
WRITER = "m 0123456789ab"


def change(images: Sequence[ImageRow], captions: Sequence[CaptionRow], *replaced: int) -> Change:
    points = np.eye(8, dtype=np.float32)
    return Change(
        images, points[: len(images)], captions, points[: len(captions)], frozenset(replaced)
    )


def image(image_id: int, sha256: str = "") -> ImageRow:
    return ImageRow(image_id, f"{image_id}.jpg", f"{image_id}.jpg", sha256=sha256)


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    """Images 1, 2 and 3; a model wrote a caption for each."""
    with Index.create(tmp_path / "i", MODEL, threads=1) as made:
        rows = [CaptionRow(10 + at, at, f"thing {at}", WRITER) for at in (1, 2, 3)]
        made.change(change([image(1), image(2), image(3)], rows))
        yield made


def found(index: Index, selection: Selection) -> set[int]:
    """Return the captions that a search finds, the same ones in every mode."""
    answers = [
        set(index.search(Query("caption", 9, mode, selection=selection), np.full(8, 0.3)).ids)
        for mode in MODES
    ]
    assert answers[0] == answers[1] == answers[2]
    return answers[0]


@pytest.mark.parametrize("distinct", [False, True])
def test_search_finds_written_captions_where_it_asks_or_there_are_no_others(
    index: Index, distinct: bool
) -> None:
    either = Selection(written=None, distinct_texts=distinct)
    people, every = replace(either, written=False), replace(either, written=True)
    assert found(index, either) == found(index, every) == {11, 12, 13}
    assert found(index, people) == set()
    index.add([image(4)], np.ones((1, 8)), [CaptionRow(20, 4, "thing 4")], np.ones((1, 8)))
    assert found(index, either) == found(index, people) == {20}
    assert found(index, every) == {11, 12, 13, 20}
    index.remove([4])
    assert found(index, either) == {11, 12, 13}


def test_generated_captions_go_when_their_image_or_captions_change(
    index: Index,
) -> None:
    rows = [CaptionRow(20, 1, "a dog"), CaptionRow(21, 2, "a cat", "other")]
    index.change(change([image(3, "ab")], rows, 3))
    assert index.catalog.captions_of([1, 2, 3]) == {1: [rows[0]], 2: [rows[1]], 3: []}
    assert found(index, Selection()) == {20, 21}
    assert verify(index.folder).ok
