from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from index.errors import HasseIndexError, IndexLockedError
from index.segments.compaction import Compacted
from index.segments.upkeep import Upkeep
from index.store import Index
from tests.index.samples import embeddings, images, model

POINTS = embeddings(np.random.default_rng(0), 40, 16)


def filled(folder: Path) -> Index:
    index = Index.create(folder, model(), threads=1)
    for id_ in range(20):
        index.add(images([id_]), POINTS[[id_]])
    return index


def merged_by_upkeep(index: Index) -> list[Compacted]:
    """Return what upkeep tells of, from its first compaction until it was closed."""
    merged: list[Compacted] = []
    seen = threading.Event()

    def note(done: Compacted) -> None:
        merged.append(done)
        seen.set()

    upkeep = Upkeep(index, 0.01, on_compaction=note)
    upkeep.start()
    assert seen.wait(60)
    upkeep.close()
    return merged


def test_small_segments_are_merged_while_nobody_asks(tmp_path: Path) -> None:
    with filled(tmp_path / "i") as index:
        merged = merged_by_upkeep(index)
        assert (merged[0].before, merged[0].after) == (20, 1)
        assert set(index.search("image", np.zeros(16), 50).ids.tolist()) == set(range(20))


def test_that_removed_rows_are_gone_from_the_disk_is_told(tmp_path: Path) -> None:
    with Index.create(tmp_path / "i", model(), threads=1) as index:
        index.add(images(range(20)), POINTS[:20])
        index.remove(range(10))
        merged = merged_by_upkeep(index)
    assert [(done.before, done.after, done.dropped) for done in merged] == [(1, 1, 10)]


def test_at_zero_seconds_nothing_is_merged(tmp_path: Path) -> None:
    with filled(tmp_path / "i") as index:
        before = threading.active_count()
        upkeep = Upkeep(index, 0)
        upkeep.start()
        assert threading.active_count() == before
        upkeep.close()
        assert len(index.info().segments) == 20


def test_a_merge_under_way_is_given_up_when_closing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    check = Upkeep._check

    def slow(self: Upkeep, done: int, total: int) -> None:
        begun.set()
        assert go_on.wait(60)
        check(self, done, total)

    monkeypatch.setattr(Upkeep, "_check", slow)
    with filled(tmp_path / "i") as index:
        upkeep = Upkeep(index, 0.01)
        upkeep.start()
        assert begun.wait(60)
        upkeep._closing.set()
        go_on.set()
        upkeep.close()
        assert not upkeep._thread.is_alive()
        assert len(index.info().segments) == 20
        assert not (tmp_path / "i" / "compaction").exists()


def test_what_goes_wrong_is_tried_again_and_said_once_until_it_has_gone_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[Exception] = []
    faults = {1: "no room", 2: "no room", 3: "damage", 6: "damage", 7: "damage"}
    tried, compact = [0], Index.compact
    done = threading.Event()

    def failing(self: Index, **options: object) -> Compacted:
        tried[0] += 1
        if tried[0] in faults:  # the fourth merges, and the fifth finds nothing to merge
            raise HasseIndexError(faults[tried[0]])
        if tried[0] > 7:
            done.set()
        return compact(self, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Index, "compact", failing)
    with filled(tmp_path / "i") as index:
        upkeep = Upkeep(index, 0.01, on_error=said.append)
        upkeep.start()
        assert done.wait(60)
        upkeep.close()
    assert [str(error) for error in said] == ["no room", "damage", "damage"]


def test_that_another_process_is_merging_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = threading.Semaphore(0)
    said: list[Exception] = []

    def busy(*_: object, **__: object) -> Compacted:
        tried.release()
        raise IndexLockedError("another process is compacting the index")

    with filled(tmp_path / "i") as index:
        monkeypatch.setattr(Index, "compact", busy)
        upkeep = Upkeep(index, 0.01, on_error=said.append)
        upkeep.start()
        assert tried.acquire(timeout=60)
        assert tried.acquire(timeout=60), "it is tried again"
        upkeep.close()
    assert said == []


def test_memory_is_returned_while_nobody_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    returned = threading.Event()
    monkeypatch.setattr(Index, "let_go", lambda _: returned.set())
    with filled(tmp_path / "i") as index:
        upkeep = Upkeep(index, 0.01)
        upkeep.start()
        assert returned.wait(60)
        upkeep.close()


def test_memory_of_points_is_returned_and_answers_stay_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("index.segments.segment.BOUNDS_FROM_BYTES", 1)
    monkeypatch.setattr("index.segments.arrays._READ_BYTES", 0)
    with Index.create(tmp_path / "i", model(), threads=1) as index:
        index.add(images(range(40)), POINTS)
        before = index.search("image", POINTS[0], 10)
        index.let_go()
        after = index.search("image", POINTS[0], 10)
        assert after.ids.tolist() == before.ids.tolist()
        assert after.violations.tolist() == before.violations.tolist()
        info = index.info()
        assert 0 < info.resident < info.bytes - POINTS.nbytes
