"""Searches over part of a collection are exact over that part, in every mode."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hasse.index.catalog.catalog import Catalog
from hasse.index.catalog.selection import Selection
from hasse.index.errors import BadQueryError
from hasse.index.search.masks import Masks
from hasse.index.search.query import Query
from hasse.index.segments.change import Change
from hasse.index.segments.compaction import everything
from hasse.index.segments.cost_model import Thresholds
from hasse.index.segments.snapshot import Snapshot
from hasse.index.store import Index
from hasse.index.types import KINDS, MODES, CaptionRow, Ids, ImageRow, Kind
from tests.index.samples import embeddings, images, model, small_index, violations
from tests.oracle import best

ROWS = 300
DIMENSION = 24
SPLITS = ("train", "val", "")
RNG = np.random.default_rng(1)
IMAGES = embeddings(RNG, ROWS, DIMENSION)
CAPTIONS = embeddings(RNG, 2 * ROWS, DIMENSION)
QUERIES = embeddings(RNG, 3, DIMENSION)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    """Three segments of images 0 to 299 and of two captions each, some deleted, all bounded."""
    patch = pytest.MonkeyPatch()
    now = iter(range(1, 10))
    patch.setattr("hasse.index.catalog.mutations.time.time_ns", lambda: next(now) * 10**9)
    opened = Index.create(
        tmp_path_factory.mktemp("selection") / "i",
        model(DIMENSION),
        threads=1,
        thresholds=Thresholds(bounds_from_bytes=1, prefilter_from_rows=150),
    )
    for part in np.split(np.arange(ROWS), [20, 60]):
        rows = [ImageRow(int(at), f"{at}.jpg", "", split=SPLITS[at % 3]) for at in part]
        own = [CaptionRow(2 * at + n, int(at), "words") for at in part for n in (0, 1)]
        opened.add(rows, IMAGES[part], own, CAPTIONS[[row.id for row in own]])
    opened.remove(range(0, ROWS, 7))
    patch.undo()
    yield opened
    opened.close()


def selected(selection: Selection) -> list[int]:
    """The live images of a selection, the plain way; block b was added in second b + 1."""
    seconds = [1000 * (1 + (at >= 20) + (at >= 60)) for at in range(ROWS)]
    return [
        at
        for at in range(ROWS)
        if at % 7
        and (selection.split is None or SPLITS[at % 3] == selection.split)
        and (selection.image_ids is None or at in selection.image_ids)
        and (selection.added_from is None or seconds[at] >= selection.added_from)
        and (selection.added_before is None or seconds[at] < selection.added_before)
    ]


times = st.none() | st.sampled_from([1000, 2000, 3000]) | st.integers(0, 5000)
selections = st.builds(
    Selection,
    split=st.none() | st.sampled_from([*SPLITS, "none such"]),
    image_ids=st.none()
    | st.lists(st.integers(-5, 310), max_size=12).map(tuple)
    | st.integers(0, 300).map(lambda first: tuple(range(first, 300))),
    added_from=times,
    added_before=times,
)


@settings(max_examples=80, suppress_health_check=list(HealthCheck))
@given(selection=selections, kind=st.sampled_from(KINDS), k=st.sampled_from([1, 10, 1000]))
def test_every_mode_answers_over_what_is_selected_and_nothing_else(
    index: Index, selection: Selection, kind: Kind, k: int
) -> None:
    chosen = np.array(selected(selection), np.int64)
    ids = chosen if kind == "image" else (2 * chosen[:, None] + [0, 1]).ravel()
    points = (IMAGES if kind == "image" else CAPTIONS)[ids]
    for mode in MODES:
        answers = index.search_batch(Query(kind, k, mode, selection=selection), QUERIES)
        for answer, query in zip(answers, QUERIES, strict=True):
            found = violations(kind, "order", points, query).astype(np.float32)
            assert answer.searched == len(ids)
            assert set(answer.ids.tolist()) <= set(ids.tolist())
            if answer.certified:
                assert answer.ids.tolist() == best(found, ids, k).tolist()
            assert answer.certified or mode == "fast"


def test_selection_of_everything_is_no_selection(index: Index) -> None:
    for kind in KINDS:
        for mode in MODES:
            all_of_it = index.search(Query(kind, 9, mode, selection=Selection()), QUERIES[0])
            plain = index.search(Query(kind, 9, mode), QUERIES[0])
            assert all_of_it.ids.tolist() == plain.ids.tolist()
            assert all_of_it.searched == plain.searched


def test_selection_follows_later_additions_and_removals(tmp_path: Path) -> None:
    point = np.ones(16)
    val, train = Selection(split="val"), Selection(split="train")
    with small_index(tmp_path / "i") as one, Index.open(tmp_path / "i", threads=1) as two:

        def found(selection: Selection) -> list[set[int]]:
            return [
                set(index.search(Query("image", 100, selection=selection), point).ids.tolist())
                for index in (one, two)
            ]

        assert found(val) == [set(range(1, 13))] * 2
        assert found(train) == [set()] * 2
        one.remove([3])
        # Another process sees the catalog before it looks for the generation, and tells no lies.
        assert found(val) == [set(range(1, 13)) - {3}] * 2
        two.add([images([3])[0]._replace(split="train")], np.ones((1, 16)) / 4)
        assert found(train) == [{3}] * 2
        assert found(val) == [set(range(1, 13)) - {3}] * 2


def test_selection_is_of_the_rows_there_are_and_not_of_those_before(tmp_path: Path) -> None:
    chosen = Selection(image_ids=(1, 4))
    with Index.create(tmp_path / "i", model(), threads=1) as index:

        def found_with(*ids: int) -> list[int]:
            for id_ in ids:
                index.add(images([id_]), np.ones((1, 16)))
            answer = index.search(Query("image", 5, selection=chosen), np.ones(16))
            found: list[int] = answer.ids.tolist()
            assert answer.searched == len(found)
            return found

        assert found_with(1, 2) == [1]
        assert found_with(5) == [1]
        index.remove([1, 2, 5])
        index.compact(everything)
        assert found_with(3, 4) == [4]


def test_answer_over_a_selection_is_of_one_generation_while_another_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_index(tmp_path / "i") as writer, Index.open(tmp_path / "i") as reader:
        narrowed = reader._reader._narrowing._masks.narrow

        def overtaken(*args: Any) -> Snapshot:
            monkeypatch.undo()
            writer.change(Change(removed_by_name=[5]))
            found = narrowed(*args)
            reader.refresh()  # by another thread, between the look at the catalog and ours
            return found

        monkeypatch.setattr(reader._reader._narrowing._masks, "narrow", overtaken)
        answer = reader.search(Query("image", 12, selection=Selection(split="val")), np.zeros(16))
        assert (answer.generation, answer.searched) == (2, 11)
        assert sorted(answer.ids.tolist()) == [1, 2, 3, 4, *range(6, 13)]


def of_split(at: int) -> Selection:
    return Selection(split=f"split {at}")


def of_long_split(at: int) -> Selection:
    return Selection(split=f"split {at}" * 1000)


def of_ids(at: int) -> Selection:
    return Selection(image_ids=tuple(range(1000 * at, 1000 * (at + 1))))


def of_long_phrase(at: int) -> Selection:
    return Selection(phrases=(f"word{at}" * 1500,))


@pytest.mark.parametrize(
    ("selection", "count"),
    [(of_split, 400), (of_long_split, 60), (of_ids, 20), (of_long_phrase, 60)],
)
def test_masks_and_what_they_are_kept_by_take_a_bounded_amount_of_memory(
    index: Index, selection: Callable[[int], Selection], count: int
) -> None:
    capacity = 1 << 16
    masks = Masks(index.folder, capacity=capacity)
    masks.narrow(index.snapshot, index.catalog, "image", selection(count))
    tracemalloc.start()
    try:
        for at in range(count):
            masks.narrow(index.snapshot, index.catalog, "image", selection(at))
        gc.collect()
        assert masks._cached
        # Usually 1.4 times the capacity at most; all of them are 8 times as much and more.
        assert tracemalloc.get_traced_memory()[0] < 4 * capacity
    finally:
        tracemalloc.stop()


def test_segment_is_looked_up_once_for_a_selection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_index(tmp_path / "i") as index:
        asked: list[int] = []
        ids = Selection.ids

        def counted(
            selection: Selection, catalog: Catalog, folder: Path, kind: Kind, among: Ids
        ) -> Ids:
            asked.append(len(among))
            return ids(selection, catalog, folder, kind, among)

        monkeypatch.setattr(Selection, "ids", counted)
        for _ in range(3):
            index.search(Query("image", 5, selection=Selection(split="val")), np.ones(16))
        index.add(images([50]), np.ones((1, 16)) / 4)
        index.search(Query("image", 5, selection=Selection(split="val")), np.ones(16))
        # Small segments are searched together, so the first is looked up again with the second.
        assert asked == [12, 13]


def test_mask_that_two_threads_make_at_once_is_counted_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    masks, asked, ids = Masks(tmp_path, capacity=1000), [], Selection.ids  # one of them takes 624

    def overtaken(
        selection: Selection, catalog: Catalog, folder: Path, kind: Kind, among: Ids
    ) -> Ids:
        asked.append(len(among))
        if len(asked) == 1:
            narrow()  # by another thread
        return ids(selection, catalog, folder, kind, among)

    monkeypatch.setattr(Selection, "ids", overtaken)
    with small_index(tmp_path / "i") as index:

        def narrow() -> None:
            masks.narrow(index.snapshot, index.catalog, "image", Selection(split="val"))

        narrow()
        narrow()
    assert asked == [12, 12]


def test_search_over_a_selection_keeps_the_folders_of_its_generation(tmp_path: Path) -> None:
    with small_index(tmp_path / "i") as index:
        index.remove([1])
        segments = index.folder / "segments"
        old = set(segments.iterdir())
        narrowed = Masks(index.folder).narrow(
            index.snapshot, index.catalog, "image", Selection(split="val")
        )
        index.compact(everything)
        assert old < set(segments.iterdir())
        del narrowed
        with index.writing():
            pass
        assert not old & set(segments.iterdir())


def test_masks_that_were_used_last_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str | None] = []
    ids = Selection.ids

    def counted(
        selection: Selection, catalog: Catalog, folder: Path, kind: Kind, among: Ids
    ) -> Ids:
        asked.append(selection.split)
        return ids(selection, catalog, folder, kind, among)

    monkeypatch.setattr(Selection, "ids", counted)
    masks = Masks(tmp_path, capacity=1300)  # two of them
    with small_index(tmp_path / "i") as index:
        for split in "abacabcb":
            masks.narrow(index.snapshot, index.catalog, "image", Selection(split=split))
    assert "".join(split or "" for split in asked) == "abcbc"


def test_selection_of_more_rows_than_one_statement_takes_is_whole(
    tmp_path: Path,
) -> None:
    among = np.random.default_rng(2).permutation(300_000)
    with small_index(tmp_path / "i") as index:
        index.remove([7])
        found = Selection(split="val").ids(index.catalog, index.folder, "image", among)
        assert sorted(found.tolist()) == [*range(1, 7), *range(8, 13)]


def test_too_long_a_list_of_ids_is_refused() -> None:
    with pytest.raises(BadQueryError, match="the filter has 10,001 ids: name at most 10,000"):
        Selection(image_ids=tuple(range(10_001)))
    Selection(image_ids=tuple(range(10_000)))


@pytest.mark.parametrize("split", ["\ud800", "te\0st"])
def test_split_that_no_database_can_hold_is_refused(split: str) -> None:
    with pytest.raises(BadQueryError, match="no image is of such a split"):
        Selection(split=split)


@pytest.mark.parametrize(
    "numbers",
    [
        {"image_ids": (3, 1 << 63)},
        {"image_ids": (-(1 << 63) - 1,)},
        {"added_from": 1 << 63},
        {"added_before": -(1 << 63) - 1},
    ],
)
def test_number_that_no_database_can_hold_is_refused(numbers: dict[str, Any]) -> None:
    with pytest.raises(BadQueryError, match="outside the range of 64-bit integers"):
        Selection(**numbers)


def test_ids_of_an_answer_and_the_largest_there_are_can_be_selected(tmp_path: Path) -> None:
    last = (1 << 63) - 1
    with small_index(tmp_path / "i") as index:
        index.add(images([last, -last - 1]), np.ones((2, 16)))
        answer = index.search(Query("image", 5), np.ones(16))
        again = index.search(
            Query("image", 9, selection=Selection(image_ids=(*answer.ids,))), np.ones(16)
        )
        assert again.ids.tolist() == answer.ids.tolist()
        assert {last, -last - 1} <= set(again.ids.tolist())
        times: dict[str, Any] = {"added_from": np.int64(0), "added_before": np.int64(last)}
        early = index.search(Query("image", 20, selection=Selection(**times)), np.ones(16))
        assert early.searched == 14
