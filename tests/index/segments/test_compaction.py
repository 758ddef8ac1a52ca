from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from random import Random

import numpy as np
import pytest
import sqlalchemy as sql
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hasse.index.catalog.schema import DELETED, FAR_IDS, LARGEST_ID
from hasse.index.errors import BadRowsError, ChecksumError, IndexLockedError
from hasse.index.kernels.threads import Workers
from hasse.index.search.query import Query
from hasse.index.search.search import search
from hasse.index.segments import compaction
from hasse.index.segments.change import Change
from hasse.index.segments.compaction import everything, tiers
from hasse.index.segments.snapshot import LiveSegment, Snapshot
from hasse.index.store import Index
from hasse.index.types import KINDS, MODES, Points
from hasse.index.verify import verify
from tests import oracle
from tests.index.samples import (
    BOUNDED,
    captions,
    embeddings,
    grid,
    images,
    model,
    small_index,
    violations,
)

POINTS = embeddings(np.random.default_rng(0), 300, 16)
GRID = grid(np.random.default_rng(0), 300, 16)


def grown(folder: Path, additions: int) -> Index:
    """An index of as many segments of each kind: image and caption `id_` were added together."""
    index = Index.create(folder, model(), threads=1)
    for id_ in range(additions):
        index.add(images([id_]), POINTS[[id_]], captions([id_], [id_]), POINTS[[id_ + 100]])
    return index


def answers(index: Index, query: Points) -> list[tuple[list[int], list[float], int]]:
    """What every mode finds in both directions."""
    return [
        (answer.ids.tolist(), answer.violations.tolist(), answer.searched)
        for kind in KINDS
        for mode in MODES
        for answer in [index.search(Query(kind, 50, mode), query)]
    ]


def deletions(index: Index) -> int:
    """How many deletions the catalog remembers."""
    with index.catalog.reading() as connection:
        count = sql.select(sql.func.count()).select_from(DELETED)
        return int(connection.execute(count).scalar_one())


def folders(index: Index) -> set[str]:
    """The names of the segment folders that are there."""
    return {path.name for path in (index.folder / "segments").iterdir()}


def test_merging_changes_no_answer_and_leaves_one_segment_of_each_kind(tmp_path: Path) -> None:
    with grown(tmp_path / "i", 30) as index:
        index.remove([3, 17])
        before = answers(index, POINTS[200])
        told: list[tuple[int, int]] = []
        done = index.compact(everything, lambda *rows: told.append(rows))
        assert (done.before, done.after, done.dropped) == (60, 2, 4)
        assert told == sorted(told)
        assert told[-1] == (56, 56)
        assert done.generation == index.generation
        for live in (index, Index.open(tmp_path / "i", threads=1)):
            assert answers(live, POINTS[200]) == before
            assert [segment.rows for segment in live.info().segments] == [28, 28]
        live.close()
        assert len(folders(index)) == 2
        assert verify(tmp_path / "i").ok
        again = index.compact(everything)
        assert (again.before, again.after, again.generation) == (2, 2, done.generation)


def test_compaction_leaves_nothing_of_a_removed_row_on_the_disk(tmp_path: Path) -> None:
    with small_index(tmp_path / "i") as index:
        point = index.points("image", [3])[3].tobytes()
        index.remove([3])
        index.compact(everything)
        files = [path.read_bytes() for path in (tmp_path / "i" / "segments").rglob("*.npy")]
        assert files
        assert not any(point in content for content in files)
        assert deletions(index) == 0
        assert index.compact(everything).dropped == 0


def test_merge_of_images_forgets_no_removal_of_captions_with_their_numbers(
    tmp_path: Path,
) -> None:
    with grown(tmp_path / "i", 4) as index:
        index.remove([1])
        index.compact(lambda segments: everything(segments)[:1])
        assert deletions(index) == 1
        assert verify(tmp_path / "i").ok


def test_removal_is_remembered_while_a_reader_has_not_followed_it(tmp_path: Path) -> None:
    with grown(tmp_path / "i", 4) as index, Index.open(tmp_path / "i", threads=1):
        index.remove([1])
        index.compact(everything)
        assert deletions(index) == 2


def test_free_ids_after_a_merge_are_none_that_an_image_had(tmp_path: Path) -> None:
    with grown(tmp_path / "i", 5) as index:
        for _ in range(3):
            index.remove([max(index.snapshot.ids("image").tolist())])
            index.compact(everything)
            free = next(index.catalog.free_ids("image", index.catalog.largest_ids()["image"]))
            assert free == 5
        assert deletions(index) == 2  # of image 4 and of its caption


def test_free_ids_beside_ids_named_far_away_stay_small_and_below_the_largest(
    tmp_path: Path,
) -> None:
    with grown(tmp_path / "i", 3) as index:
        named = [FAR_IDS, LARGEST_ID, 2**63 - 1]
        index.add(images(named), POINTS[:3])
        index.remove(named[:1])
        index.compact(everything)
        assert index.catalog.largest_ids()["image"] == 2
        assert next(index.catalog.free_ids("image", 2)) == 3
        assert next(index.catalog.free_ids("image", FAR_IDS - 1)) == FAR_IDS + 1


def test_index_whose_rows_are_all_removed_has_no_segments(tmp_path: Path) -> None:
    with small_index(tmp_path / "i") as index:
        index.remove(list(range(1, 13)))
        assert index.compact().after == 0
        assert index.search(Query("image", 5), POINTS[0]).searched == 0
        index.add(images([3]), POINTS[:1])
        assert index.search(Query("image", 5), POINTS[0]).ids.tolist() == [3]
        assert verify(tmp_path / "i").ok


def test_tiers_merge_what_is_of_similar_size_and_leave_the_rest(tmp_path: Path) -> None:
    with grown(tmp_path / "i", 7) as index:
        assert index.compact().after == 14
        index.add(images([50]), POINTS[[50]])
        done = index.compact()
        assert (done.before, done.after) == (15, 8)
        assert sorted(segment.rows for segment in index.info().segments) == [1] * 7 + [8]


@pytest.mark.parametrize(
    ("sizes", "left"), [((100, 600), [100] * 4 + [600] * 4), ((9, 500), [2036])]
)
def test_segments_after_merges_are_small_or_within_a_factor_of_eight(
    tmp_path: Path, sizes: tuple[int, int], left: list[int]
) -> None:
    first = 0
    with Index.create(tmp_path / "i", model(), threads=1) as index:
        for rows in np.repeat(sizes, 4):
            index.add(images(range(first, first + rows)), POINTS[np.arange(rows) % len(POINTS)])
            first += rows
        index.compact()
        assert sorted(segment.rows for segment in index.info().segments) == left


def test_segment_that_is_mostly_removed_is_rewritten_by_itself(tmp_path: Path) -> None:
    with small_index(tmp_path / "i") as index:
        index.remove([1, 2, 3])
        assert index.compact().dropped == 0
        index.remove([4])
        assert index.compact().dropped == 4 + 8
        assert [segment.rows for segment in index.info().segments] == [8, 16]
        assert set(index.search(Query("image", 50), np.zeros(16)).ids.tolist()) == set(range(5, 13))


def test_segment_that_is_mostly_removed_is_merged_once_with_others_of_its_size(
    tmp_path: Path,
) -> None:
    with Index.create(tmp_path / "i", model(), threads=1) as index:
        for at in range(0, 16, 2):
            index.add(images([at, at + 1]), POINTS[[at, at + 1]])
        index.remove([0])
        done = index.compact()
        assert (done.before, done.after, done.dropped) == (8, 1, 1)


def test_merged_segment_has_no_more_rows_than_allowed(tmp_path: Path) -> None:
    for choose in (tiers, everything):
        with grown(tmp_path / choose.__name__, 24) as index:
            index.compact(partial(choose, rows_per_segment=10))
            assert sorted(part.rows for part in index.info().segments) == [4] * 2 + [10] * 4


def test_segment_that_no_other_fits_beside_is_not_written_again(tmp_path: Path) -> None:
    with grown(tmp_path / "i", 21) as index:
        before = folders(index)
        index.compact(partial(tiers, rows_per_segment=10))
        assert sorted(part.rows for part in index.info().segments) == [1] * 2 + [10] * 4
        assert len(before & folders(index)) == 2


@pytest.mark.slow
def test_lists_longer_than_one_statement_takes_are_changed_part_by_part(tmp_path: Path) -> None:
    some, others = range(10_100), [*range(10_100, 20_200), 11]
    points = np.tile(np.eye(2, dtype=np.float32), (len(others) // 2 + 1, 1))
    with Index.create(tmp_path / "i", model(2), threads=1) as index:
        for _ in range(2):
            index.add(images(some), points[: len(some)], captions(some, some), points[: len(some)])
            with pytest.raises(BadRowsError, match="image 11 is in the index already"):
                index.add(images(others), points[: len(others)])
            index.remove(some)
        assert deletions(index) == 2 * len(some)
        index.compact(everything)
        assert deletions(index) == 2  # the largest image and caption, whose ids stay taken
        assert verify(tmp_path / "i").ok


def test_id_removed_and_added_again_keeps_only_its_last_point(tmp_path: Path) -> None:
    with small_index(tmp_path / "i") as index:
        for corner in range(3):
            index.remove([5])
            index.add(images([5]), np.eye(16)[[corner]])
        index.remove([5])

        def latest(segments: object) -> list[compaction.Group]:
            return [[live for live in index.snapshot.segments if len(live.excluded)][-1:]]

        for _ in range(3):
            # Whichever goes first, no older point of the image comes back.
            index.compact(latest)
            for live in (index, Index.open(tmp_path / "i", threads=1)):
                assert 5 not in live.search(Query("image", 100), np.zeros(16)).ids
            live.close()
        assert verify(tmp_path / "i").ok


def assert_is(found: Snapshot, state: dict[int, int], workers: Workers) -> None:
    """Every search of a generation finds what numpy does among the images of a state.

    `state` gives, for each image that is there, which of GRID are its point and its caption's.
    """
    for kind, first in zip(KINDS, (0, 100), strict=True):
        ids = np.array(sorted(state), np.int64) + first
        stored = GRID[[state[id_] + first for id_ in sorted(state)]]
        wanted = oracle.best(violations(kind, "order", stored, GRID[299]), ids, 10)
        for mode in MODES:
            (answer,) = search(found, GRID[[299]], Query(kind, 10, mode), workers)
            assert answer.searched == len(state)
            assert answer.ids.tolist() == wanted.tolist()


@settings(max_examples=15, suppress_health_check=list(HealthCheck))
@given(st.lists(st.integers(0, 14), min_size=1, max_size=30), st.randoms(use_true_random=False))
def test_any_history_gives_what_it_gives_without_merging(
    tmp_path_factory: pytest.TempPathFactory,
    workers: Workers,
    steps: list[int],
    random: Random,
) -> None:
    folder = tmp_path_factory.mktemp("history")
    state: dict[int, int] = {}
    held: list[tuple[Snapshot, dict[int, int]]] = []
    with (
        Index.create(folder / "i", model(), threads=1, thresholds=BOUNDED) as index,
        Index.open(folder / "i", threads=1, thresholds=BOUNDED) as other,
    ):
        for at, step in enumerate(steps):
            writer = random.choice([index, other])
            if step > 11:
                writer.compact(tiers if step == 12 else everything)
            elif step in state:
                writer.change(Change(removed_by_name=[step]))
                state = {id_: row for id_, row in state.items() if id_ != step}
            else:
                own = captions([100 + step], [step])
                writer.add(images([step]), GRID[[at]], own, GRID[[at + 100]])
                state = state | {step: at}
            if random.random() < 0.3:
                held.append((writer.snapshot, state))
        with Index.open(folder / "i", threads=1) as fresh:
            for live in (index, other, fresh):
                live.refresh()
                assert_is(live.snapshot, state, workers)
            for snapshot, before in held:
                assert_is(snapshot, before, workers)
        assert verify(folder / "i").ok


def test_change_during_a_merge_is_in_the_next_search(tmp_path: Path) -> None:
    with grown(tmp_path / "i", 10) as index:
        changed: list[int] = []

        def change_once(*_: int) -> None:
            if not changed:
                changed.extend((index.remove([2]), index.remove([4])))
                index.add(images([4, 60]), POINTS[[150, 60]])

        index.compact(lambda segments: everything(segments)[:1], change_once)
        for live in (index, Index.open(tmp_path / "i", threads=1)):
            found = live.search(Query("image", 50), POINTS[150])
            assert set(found.ids.tolist()) == {*range(10), 60} - {2}
            assert live.points("image", [4])[4].tolist() == POINTS[150].tolist()
        live.close()
        assert verify(tmp_path / "i").ok
        index.compact(everything)
        assert deletions(index) == 0
        assert set(index.search(Query("image", 50), POINTS[150]).ids.tolist()) == {
            *range(10),
            60,
        } - {2}


def test_reader_until_refresh_keeps_only_its_own_segment_folders(
    tmp_path: Path,
) -> None:
    with grown(tmp_path / "i", 8) as index:
        old = folders(index)
        with Index.open(tmp_path / "i", threads=1) as reader:
            before = answers(reader, POINTS[200])
            index.compact(everything)
            with index.writing() as killed:
                killed.workspace().mkdir()
            with index.writing():
                pass
            assert folders(index) == old | index.catalog.segment_names()
            assert answers(reader, POINTS[200]) == before
            assert reader.refresh()
            assert answers(reader, POINTS[200]) == before
            with index.writing():
                pass
            assert len(folders(index)) == 2


def test_search_under_way_keeps_its_folders_within_one_process(tmp_path: Path) -> None:
    with grown(tmp_path / "i", 8) as index:
        old, snapshot = folders(index), index.snapshot
        index.compact(everything)
        assert old < folders(index)
        del snapshot
        with index.writing():
            pass
        assert len(folders(index)) == 2


@pytest.mark.parametrize("name", ["points.npy", "ids.npy"])
def test_damage_is_not_sealed_into_a_merged_segment(name: str, tmp_path: Path) -> None:
    with grown(tmp_path / "i", 3) as index:
        path = next((tmp_path / "i" / "segments").glob("image-*")) / name
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
        with pytest.raises(ChecksumError, match=f"{name} was changed since it was written"):
            index.compact(everything)
        assert len(index.info().segments) == 6
        assert not (tmp_path / "i" / "compaction").exists()


def test_compaction_merges_additions_of_another_process(tmp_path: Path) -> None:
    with grown(tmp_path / "i", 2) as index, Index.open(tmp_path / "i", threads=1) as other:
        other.add(images([80]), POINTS[[80]])
        index.compact(everything)
        assert len(index.info().segments) == 2


def test_row_removed_before_its_segment_is_merged_counts_as_dropped(tmp_path: Path) -> None:
    with grown(tmp_path / "i", 4) as index:

        def overtaken(segments: Sequence[LiveSegment]) -> list[compaction.Group]:
            groups = everything(segments)
            index.remove([1])
            return groups

        assert index.compact(overtaken).dropped == 2


def test_compaction_leaves_additions_made_meanwhile(tmp_path: Path) -> None:
    with grown(tmp_path / "i", 3) as index:
        there = len(index.info().segments)

        def nothing(_segments: object) -> list[compaction.Group]:
            index.add(images([80]), POINTS[[80]])
            return []

        done = index.compact(nothing)
        assert len(index.info().segments) > there
        assert (done.before, done.after, done.dropped) == (there, there, 0)


def test_second_compaction_is_refused_and_additions_are_not_delayed(tmp_path: Path) -> None:
    merging, added = threading.Event(), threading.Event()

    def wait(*_: int) -> None:
        merging.set()
        assert added.wait(60)

    with grown(tmp_path / "i", 3) as index, Index.open(tmp_path / "i", threads=1) as other:
        thread = threading.Thread(target=index.compact, args=(everything, wait))
        thread.start()
        assert merging.wait(60)
        with pytest.raises(IndexLockedError, match="another process is compacting the index"):
            other.compact()
        other.add(images([80]), POINTS[[80]])
        added.set()
        thread.join()
        assert 80 in index.search(Query("image", 3), POINTS[80]).ids
