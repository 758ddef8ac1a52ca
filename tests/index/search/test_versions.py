from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hasse.index.catalog.selection import Selection
from hasse.index.search.query import Query
from hasse.index.segments.change import Change
from hasse.index.store import Index
from hasse.index.types import ImageRow, VersionRow
from tests.index.samples import BOUNDED, embeddings, model

ROWS, DIMENSION = 40, 16
PICTURES = {3: [3, 7, 30], 5: [5, 6]}  # images that show the same picture, by the smallest


@pytest.fixture
def index(tmp_path: Path) -> Index:
    """Forty images in two segments, the larger the id the larger, with versions of two pictures."""
    made = Index.create(tmp_path / "i", model(DIMENSION), threads=1, thresholds=BOUNDED)
    points = embeddings(np.random.default_rng(0), ROWS, DIMENSION)
    rows = [
        ImageRow(id_, f"{id_}.jpg", f"{id_}.jpg", 10 * id_, 10, "odd" if id_ % 2 else "even")
        for id_ in range(1, ROWS + 1)
    ]
    made.add(rows[:20], points[:20])
    made.add(rows[20:], points[20:])
    note(made, PICTURES)
    return made


def note(index: Index, pictures: dict[int, list[int]]) -> None:
    rows = [VersionRow(id_, "00", first) for first, ids in pictures.items() for id_ in ids]
    index.change(Change(versions=rows))


def found(
    index: Index, k: int = ROWS, selection: Selection | None = None, *, one: bool = True
) -> tuple[list[int], dict[int, list[int]]]:
    query = Query("image", k, selection=selection, distinct_pictures=one)
    answer = index.search(query, np.full(DIMENSION, 0.2, np.float32))
    assert answer.certified
    return answer.ids.tolist(), dict(answer.same)


def test_versions_of_a_picture_are_one_hit_the_largest_with_the_others(index: Index) -> None:
    every, _ = found(index, one=False)
    ids, same = found(index)
    assert ids == [id_ for id_ in every if id_ not in (3, 7, 5)]
    assert same == {30: [7, 3], 6: [5]}
    some, _ = found(index, k=10)
    assert some == ids[:10]


def test_version_that_stands_for_a_picture_is_the_largest_of_those_selected(index: Index) -> None:
    ids, same = found(index, selection=Selection(split="odd"))
    assert sorted(ids) == [id_ for id_ in range(1, ROWS, 2) if id_ != 3]
    assert same == {7: [3]}


def test_search_that_asks_for_all_versions_has_each_as_a_hit(index: Index) -> None:
    ids, same = found(index, one=False)
    assert sorted(ids) == list(range(1, ROWS + 1))
    assert same == {}


def test_version_that_is_removed_leaves_its_place_to_the_next(index: Index) -> None:
    index.remove([30])
    ids, same = found(index)
    assert 7 in ids
    assert same == {7: [3], 6: [5]}


def test_image_that_gets_another_picture_is_no_version_any_more(index: Index) -> None:
    row, point = ImageRow(7, "7.jpg", "7.jpg", 9, 9), np.full((1, DIMENSION), 0.1)
    index.change(Change([row], point, replaced_images=frozenset([7])))
    assert 7 not in index.catalog.versions()
    ids, same = found(index)
    assert 7 in ids
    assert same == {30: [3], 6: [5]}


def test_versions_that_another_process_notes_are_seen_by_the_next_search(index: Index) -> None:
    with Index.open(index.folder) as other:
        note(other, {1: [1, 2]})
    ids, same = found(index)
    assert 1 not in ids
    assert same[2] == [1]


def test_joint_and_similar_searches_see_one_version_too(index: Index) -> None:
    query = Query("image", ROWS, distinct_pictures=True)
    parts = np.full((2, DIMENSION), 0.2, np.float32)
    joint = index.search_jointly(query, parts)
    alike = index.search(Query("image", ROWS, distinct_pictures=True, relation="alike"), parts[0])
    for answer in (joint, alike):
        assert not {3, 7, 5} & set(answer.ids.tolist())
        assert dict(answer.same) == {30: [7, 3], 6: [5]}
