from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from hasse.index.errors import HasseIndexError, IndexLockedError
from hasse.index.kernels import arrays
from hasse.index.search.query import Query
from hasse.index.segments.compaction import CompactionResult, ProgressCallback
from hasse.index.segments.upkeep import Upkeep
from hasse.index.store import Index
from tests.index.samples import BOUNDED, embeddings, images, model

POINTS = embeddings(np.random.default_rng(0), 40, 16)


def filled(folder: Path) -> Index:
    index = Index.create(folder, model(), threads=1)
    for id_ in range(20):
        index.add(images([id_]), POINTS[[id_]])
    return index


def upkeep_of(
    index: Index,
    seconds: float,
    on_compaction: Callable[[CompactionResult], None] = lambda done: None,
) -> Upkeep:
    return Upkeep(
        lambda progress: index.compact(progress=progress),
        index.release_memory,
        seconds,
        on_compaction=on_compaction,
    )


def merged_by_upkeep(index: Index) -> list[CompactionResult]:
    """Return the compactions of an upkeep until it was closed: at least one."""
    merged: list[CompactionResult] = []
    seen = threading.Event()

    def note(done: CompactionResult) -> None:
        merged.append(done)
        seen.set()

    upkeep = upkeep_of(index, 0.01, note)
    upkeep.start()
    assert seen.wait(60)
    upkeep.close()
    return merged


def test_upkeep_merges_small_segments(tmp_path: Path) -> None:
    with filled(tmp_path / "i") as index:
        merged = merged_by_upkeep(index)
        assert (merged[0].before, merged[0].after) == (20, 1)
        assert set(index.search(Query("image", 50), np.zeros(16)).ids.tolist()) == set(range(20))


def test_upkeep_reports_that_removed_rows_were_dropped(tmp_path: Path) -> None:
    with Index.create(tmp_path / "i", model(), threads=1) as index:
        index.add(images(range(20)), POINTS[:20])
        index.remove(range(10))
        merged = merged_by_upkeep(index)
    assert [(done.before, done.after, done.dropped) for done in merged] == [(1, 1, 10)]


def test_upkeep_of_zero_seconds_does_nothing(tmp_path: Path) -> None:
    with filled(tmp_path / "i") as index:
        before = set(threading.enumerate())
        upkeep = upkeep_of(index, 0)
        upkeep.start()
        assert set(threading.enumerate()) <= before
        upkeep.close()
        assert len(index.info().segments) == 20


def test_closing_upkeep_gives_up_the_merge_under_way(tmp_path: Path) -> None:
    begun = threading.Event()
    before = set(threading.enumerate())
    with filled(tmp_path / "i") as index:

        def compact(check: ProgressCallback) -> CompactionResult:
            def slow(done: int, total: int) -> None:
                begun.set()
                while True:  # until the check raises
                    check(done, total)
                    time.sleep(0.001)

            return index.compact(progress=slow)

        upkeep = Upkeep(compact, index.release_memory, 0.01)
        upkeep.start()
        assert begun.wait(60)
        upkeep.close()
        started = set(threading.enumerate()) - before
        assert not any(thread.name == "upkeep" for thread in started)
        assert len(index.info().segments) == 20
        assert not (tmp_path / "i" / "compaction").exists()


NOTHING = CompactionResult(before=1, after=1, dropped=0, generation=1)


def test_upkeep_reports_each_error_once_until_it_has_gone_well() -> None:
    reported: list[Exception] = []
    faults = {1: "no room", 2: "no room", 3: "damage", 5: "damage", 6: "damage"}
    tried, done = [0], threading.Event()

    def compact(_: ProgressCallback) -> CompactionResult:
        tried[0] += 1
        if tried[0] in faults:
            raise HasseIndexError(faults[tried[0]])
        if tried[0] > 6:
            done.set()
        return NOTHING

    upkeep = Upkeep(compact, lambda: None, 0.01, on_error=reported.append)
    upkeep.start()
    assert done.wait(60)
    upkeep.close()
    assert [str(error) for error in reported] == ["no room", "damage", "damage"]


def test_upkeep_tries_again_without_an_error_where_another_process_is_merging() -> None:
    tried = threading.Semaphore(0)
    reported: list[Exception] = []

    def busy(_: ProgressCallback) -> CompactionResult:
        tried.release()
        raise IndexLockedError("another process is compacting the index")

    upkeep = Upkeep(busy, lambda: None, 0.01, on_error=reported.append)
    upkeep.start()
    assert tried.acquire(timeout=60)
    assert tried.acquire(timeout=60), "it is tried again"
    upkeep.close()
    assert reported == []


def test_upkeep_returns_memory() -> None:
    returned = threading.Event()
    upkeep = Upkeep(lambda _: NOTHING, returned.set, 0.01)
    upkeep.start()
    assert returned.wait(60)
    upkeep.close()


def test_released_memory_changes_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "_READ_BYTES", 0)
    with Index.create(tmp_path / "i", model(), threads=1, thresholds=BOUNDED) as index:
        index.add(images(range(40)), POINTS)
        before = index.search(Query("image", 10), POINTS[0])
        index.release_memory()
        after = index.search(Query("image", 10), POINTS[0])
        assert after.ids.tolist() == before.ids.tolist()
        assert after.violations.tolist() == before.violations.tolist()
        info = index.info()
        assert 0 < info.resident < info.bytes - POINTS.nbytes
