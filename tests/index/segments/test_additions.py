from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from index.errors import BadRowsError, DiskFullError, IndexLockedError
from index.segments.writer import Writer
from index.store import Index
from tests.index.samples import captions, embeddings, images, model

POINTS = embeddings(np.random.default_rng(0), 40, 16)


def until(true: Callable[[], bool]) -> None:
    """Wait for what other threads do, for a minute at most."""
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline, "it has not come"
        time.sleep(0.001)


def until_it_writes(index: Index) -> None:
    """Wait until the only addition there is has its turn, and whatever comes now has to wait."""
    additions = index._additions
    until(lambda: additions._turn.locked() and not additions._waiting)


def until_wait(index: Index, count: int) -> None:
    """Wait until as many additions wait for the one that has its turn."""
    until(lambda: len(index._additions._waiting) == count)


def test_additions_that_wait_together_are_one_generation_and_each_is_judged_alone(
    tmp_path: Path,
) -> None:
    with Index.create(tmp_path / "i", model(), threads=1) as index:
        index.add(images([0]), POINTS[:1])

        def add(id_: int) -> int:
            return index.add(images([id_]), POINTS[[id_]], captions([id_], [id_]), POINTS[[id_]])

        with ThreadPoolExecutor(12) as pool:
            with index.writing():
                jobs = {1: pool.submit(add, 1)}
                until_it_writes(index)
                jobs |= {id_: pool.submit(add, id_) for id_ in (0, *range(2, 11))}
                twice = pool.submit(add, 5)
                until_wait(index, 11)
            refused = [job for job in (*jobs.values(), twice) if job.exception()]
            generations = {id_: job.result() for id_, job in jobs.items() if not job.exception()}
        assert len(refused) == 2
        for job in refused:
            with pytest.raises(BadRowsError, match="is in the index already"):
                job.result()
        # The first wrote alone, the second for all that waited meanwhile.
        assert generations.pop(1) == 2
        assert set(generations.values()) == {3}
        assert len(index.info().segments) == 1 + 2 * 2
        assert set(index.search("image", np.zeros(16), 50).ids.tolist()) == set(range(11))
        assert set(index.captions(range(50))) == set(range(1, 11))


def test_a_caption_finds_its_image_among_what_is_written_with_it(tmp_path: Path) -> None:
    with Index.create(tmp_path / "i", model(), threads=1) as index, ThreadPoolExecutor(3) as pool:
        with index.writing():
            jobs = [pool.submit(index.add, images([0]), POINTS[[0]])]
            until_it_writes(index)
            for waiting, rows in ((1, (images([1]), POINTS[[1]])), (2, ([], POINTS[:0]))):
                mine = (captions([1], [1]), POINTS[[1]]) if waiting == 2 else ()
                jobs.append(pool.submit(index.add, *rows, *mine))
                until_wait(index, waiting)
        for job in jobs:
            job.result()
        assert index.generation == 2
        assert set(index.captions([1])) == {1}


@pytest.mark.parametrize("step", ["durable.write", "catalog.mutations.insert_segments"])
def test_a_full_disk_is_said_to_everyone_who_waited_and_nothing_is_left(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_args: object) -> None:
        raise OSError(28, "No space left on device")

    with Index.create(tmp_path / "i", model(), threads=1) as index:
        index.add(images([0]), POINTS[:1])
        monkeypatch.setattr(f"index.{step}", full)
        with ThreadPoolExecutor(4) as pool:
            jobs = []
            with index.writing():
                for waiting, id_ in enumerate((1, 2, 3, 0)):
                    jobs.append(pool.submit(index.add, images([id_]), POINTS[[id_]]))
                    if waiting:
                        until_wait(index, waiting)
                    else:
                        until_it_writes(index)  # alone, and the second for all others
        with pytest.raises(BadRowsError, match="is in the index already"):
            jobs.pop().result()  # whatever became of the others
        for job in jobs:
            with pytest.raises(DiskFullError, match="nothing was changed"):
                job.result()
        assert len(list((tmp_path / "i" / "segments").iterdir())) == 1
        monkeypatch.undo()
        assert index.generation == 1
        assert index.search("image", POINTS[0], 5).ids.tolist() == [0]
        index.add(images([1]), POINTS[[1]])
        assert len(list((tmp_path / "i" / "segments").iterdir())) == 2


def test_an_addition_waits_for_one_that_waits_itself_no_longer_than_it_said(
    tmp_path: Path,
) -> None:
    with Index.create(tmp_path / "i", model(), threads=1) as index, ThreadPoolExecutor(1) as pool:
        with index.writing():
            first = pool.submit(index.add, images([0]), POINTS[:1], patience=60)
            until_it_writes(index)
            with pytest.raises(IndexLockedError, match="another thread is adding"):
                index.add(images([1]), POINTS[1:2], patience=0.01)
            assert not first.done()
        assert first.result() == 1
        assert index.add(images([2]), POINTS[2:3]) == 2
        assert set(index.images(range(3))) == {0, 2}


def test_one_that_has_waited_long_enough_for_another_process_speaks_for_itself_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked_at_first(patience: float) -> AbstractContextManager[Writer]:
        monkeypatch.undo()
        raise IndexLockedError("another process is writing")

    with Index.create(tmp_path / "i", model(), threads=1) as index, ThreadPoolExecutor(3) as pool:
        monkeypatch.setattr(index._additions, "_writing", locked_at_first)
        with index._additions._turn:
            jobs = [pool.submit(index.add, images([at]), POINTS[[at]]) for at in range(3)]
            until_wait(index, 3)
        ends = [type(job.exception()) for job in jobs]
        assert ends.count(IndexLockedError) == 1
        assert ends.count(type(None)) == 2
        assert set(index.images(range(3))) == {0, 1, 2} - {ends.index(IndexLockedError)}
        assert index.generation == 1


def test_the_wait_for_other_additions_is_taken_from_that_for_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    patiences = []

    def locked(patience: float) -> AbstractContextManager[Writer]:
        patiences.append(patience)
        raise IndexLockedError("another process is writing")

    with Index.create(tmp_path / "i", model(), threads=1) as index:
        now = iter([100.0, 103.0, 200.0, 211.0])
        monkeypatch.setattr(
            "index.segments.additions.time", SimpleNamespace(monotonic=lambda: next(now))
        )
        monkeypatch.setattr(index._additions, "_writing", locked)
        for _ in range(2):
            with pytest.raises(IndexLockedError):
                index.add(images([0]), POINTS[:1], patience=10.0)
    assert patiences == [7.0, 0.0]


def test_additions_that_wait_are_written_together_up_to_so_many_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("index.segments.additions._ROWS_TOGETHER", 2)
    with Index.create(tmp_path / "i", model(), threads=1) as index, ThreadPoolExecutor(5) as pool:
        with index._additions._turn:
            jobs = [pool.submit(index.add, images([at]), POINTS[[at]]) for at in range(5)]
            until_wait(index, 5)
        assert sorted(job.result() for job in jobs) == [1, 1, 2, 2, 3]
