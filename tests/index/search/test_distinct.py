"""Captions that read the same are one row of a search."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from hasse.index.catalog.selection import Selection
from hasse.index.search.distinct import one_text
from hasse.index.search.query import Query
from hasse.index.store import Index
from hasse.index.types import MODES, CaptionRow, ImageRow, Mode, ModelIdentity

DISTINCT = Selection(distinct_texts=True)
TEXTS = ("a dog", "A dog.", "a cat", "a  dog", "two cats", "a cat!", "a dog")
WORDS = ("dog", "cat", "cats")
POINTS = {word: np.random.default_rng(at).random(8) for at, word in enumerate(WORDS)}


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    """Seven captions of three texts, in three segments."""
    with Index.create(tmp_path / "index", ModelIdentity("m", "f", 8, "order")) as made:
        for part in ((0, 1, 2), (3, 4), (5, 6)):
            add(made, {at: TEXTS[at] for at in part})
        yield made


def add(index: Index, texts: dict[int, str]) -> None:
    index.add(
        [ImageRow(at, f"{at}", "", split="odd" * (at % 2)) for at in texts],
        np.ones((len(texts), 8)),
        [CaptionRow(10 + at, at, text) for at, text in texts.items()],
        [POINTS[one_text(text).split()[1]] for text in texts.values()],
    )


def found(index: Index, mode: Mode = "certified", **selected: object) -> dict[int, list[int]]:
    """Return the captions that a search finds, each with those that read the same."""
    selection = Selection(distinct_texts=True, **selected)  # type: ignore[arg-type]
    answer = index.search(Query("caption", 10, mode, selection=selection), np.full(8, 0.3))
    assert answer.searched == len(answer.ids)
    assert list(answer.violations) == sorted(answer.violations)
    return {int(id_): answer.same[int(id_)] for id_ in answer.ids}


@pytest.mark.parametrize("mode", MODES)
def test_search_over_distinct_texts_finds_the_smallest_id_of_each(index: Index, mode: Mode) -> None:
    assert found(index, mode) == {10: [11, 13, 16], 12: [15], 14: []}


def test_distinct_texts_are_those_of_what_is_selected(index: Index) -> None:
    assert found(index, split="odd") == {11: [13], 15: []}
    assert found(index, image_ids=(3, 6)) == {13: [16]}
    assert found(index, image_ids=()) == {}


def test_distinct_texts_follow_what_is_added_and_removed(index: Index) -> None:
    index.remove([0])
    assert found(index) == {11: [13, 16], 12: [15], 14: []}
    add(index, {20: "a dog", 21: "Two cats"})
    assert found(index) == {11: [13, 16, 30], 12: [15], 14: [31]}
    index.compact()
    assert found(index) == {11: [13, 16, 30], 12: [15], 14: [31]}


def test_joint_search_over_distinct_texts_finds_each_once(index: Index) -> None:
    query = Query("caption", 2, selection=DISTINCT)
    answer = index.search_jointly(query, np.full((2, 8), 0.3))
    assert len(answer.ids) == 2
    assert answer.searched == 3
    assert answer.same.keys() == set(answer.ids.tolist())


def test_search_without_distinct_texts_finds_every_caption(index: Index) -> None:
    answer = index.search(Query("caption", 10), np.full(8, 0.3))
    assert sorted(answer.ids) == list(range(10, 17))
    assert answer.same == {}


def test_same_captions_of_a_text_are_named_up_to_a_hundred(tmp_path: Path) -> None:
    with Index.create(tmp_path / "many", ModelIdentity("m", "f", 8, "order")) as index:
        add(index, dict.fromkeys(range(150), "a dog"))
        assert found(index) == {10: list(range(11, 111))}
