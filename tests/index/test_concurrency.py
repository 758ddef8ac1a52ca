"""Readers and writers of one index at the same time."""

from __future__ import annotations

import errno
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from hasse.index.catalog import documents, mutations
from hasse.index.catalog.catalog import Catalog
from hasse.index.catalog.records import SegmentRecord
from hasse.index.errors import (
    DamagedIndexError,
    IndexLockedError,
    NotLoadedError,
)
from hasse.index.search.query import Query
from hasse.index.segments.change import Change
from hasse.index.segments.segment import Segment, Verify, write_segment
from hasse.index.segments.writer import Writer
from hasse.index.store import Index
from hasse.index.verify import verify
from tests.index.samples import embeddings, images, model, small_index, violations
from tests.oracle import best


def test_another_reader_sees_a_change_when_it_looks(tmp_path: Path) -> None:
    with small_index(tmp_path / "i") as writer, Index.open(tmp_path / "i") as reader:
        assert not reader.refresh()
        writer.add(images([70]), np.ones((1, 16)))
        assert reader.search(Query("image", 1), np.ones(16)).violations[0] > 0
        assert reader.refresh()
        assert reader.search(Query("image", 1), np.ones(16)).ids[0] == 70
        writer.change(Change(removed_by_name=[70]))
        assert reader.refresh()
        assert reader.search(Query("image", 1), np.ones(16)).ids[0] != 70


def test_segment_gone_before_it_is_opened_leads_to_the_next_generation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, waiting = Segment.open, [80]
    with small_index(tmp_path / "i") as writer:

        def gone_at_first(
            place: Path, record: SegmentRecord, verify: Verify = "sizes", *, points_only: bool
        ) -> Segment:
            if waiting:
                writer.add(images([waiting.pop()]), np.zeros((1, 16)))
                raise DamagedIndexError("it was merged away")
            return opened(place, record, verify, points_only=points_only)

        monkeypatch.setattr(Segment, "open", gone_at_first)
        with Index.open(tmp_path / "i", threads=1) as reader:
            assert reader.generation == 2
            assert 80 in reader.points("image", [80])


def test_durable_change_that_cannot_be_loaded_is_reported_and_seen_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, points_only: bool) -> Segment:
        raise OSError(errno.EMFILE, "Too many open files")

    with small_index(tmp_path / "i") as index:
        with monkeypatch.context() as patched:
            patched.setattr(Segment, "open", broken)
            with pytest.raises(NotLoadedError, match=r"is durable, .*Too many open.*not write it"):
                index.add(images([80]), np.zeros((1, 16)))
            with pytest.raises(NotLoadedError, match="is durable"):
                index.remove([3])
        assert 80 not in index.points("image", [80])
        assert index.refresh()
        assert set(index.points("image", [3, 80])) == {80}
        assert index.generation == 3
    assert verify(tmp_path / "i").ok


def test_second_writer_is_told_of_the_first(tmp_path: Path) -> None:
    with small_index(tmp_path / "i") as index, Index.open(tmp_path / "i") as other:
        with (
            other.writing(),
            pytest.raises(IndexLockedError, match="another process is writing"),
            index.writing(timeout=0.05),
        ):
            pass
        index.add(images([80]), np.zeros((1, 16)))


def test_commit_that_outlives_its_writer_keeps_its_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settling = threading.Event()
    settle = Catalog.settle

    def settled(catalog: Catalog) -> None:
        settling.set()
        settle(catalog)

    monkeypatch.setattr(Catalog, "settle", settled)

    def write(index: Index) -> None:
        with index.writing():
            pass

    with small_index(tmp_path / "i") as index, ThreadPoolExecutor(1) as pool:
        writer = Writer(index.folder, index.catalog, index.model)
        folder = writer.workspace()
        point = np.full((1, index.model.dimension), 0.25, np.float32)
        record = write_segment(folder, "image", index.model.score, np.array([900]), point)
        writer.publish((folder, record))
        # The lock is free, as when a writer is killed whose database still commits.
        with index.catalog.writing() as connection:
            generation = mutations.raise_generation(connection, index.model)
            mutations.insert_images(connection, images([900]))
            mutations.insert_segments(connection, [record], generation)
            documents.refresh(connection, [900])
            following = pool.submit(write, index)
            while not (settling.is_set() or following.done()):
                threading.Event().wait(0.001)
        following.result()
        assert index.generation == generation
        assert 900 in index.points("image", [900])
    assert verify(tmp_path / "i").ok


def test_write_waits_for_another_thread_no_longer_than_for_another_process(
    tmp_path: Path,
) -> None:
    with small_index(tmp_path / "i") as index, ThreadPoolExecutor(1) as pool, index.writing():
        point = np.zeros((1, 16))
        for write in (
            pool.submit(index.add, images([80]), point, timeout=0.05),
            pool.submit(index.remove, [1], timeout=0.05),
        ):
            with pytest.raises(IndexLockedError, match="another thread is writing"):
                write.result(120)


def test_every_answer_belongs_to_one_generation_while_pictures_come_and_go(
    tmp_path: Path,
) -> None:
    rng = np.random.default_rng(4)
    points = embeddings(rng, 40, 16)
    query = embeddings(rng, 1, 16)[0]
    expected = violations("image", "order", points, query)
    alive: dict[int, list[int]] = {}
    done = threading.Event()

    with Index.create(tmp_path / "i", model(), threads=2) as index:
        index.add(images(range(10)), points[:10])
        alive[1] = list(range(10))

        def look() -> int:
            looked = 0
            while not done.is_set() or looked < 20:
                answer = index.search(Query("image", 5), query)
                now = np.array(alive[answer.generation])
                assert answer.ids.tolist() == best(expected[now], now, 5).tolist()
                assert answer.searched == len(now)
                looked += 1
            return looked

        def change() -> None:
            for step in range(10, 28):
                now = alive[max(alive)]
                following = max(alive) + 1
                if step % 3:
                    alive[following] = [*now, step]
                    assert index.add(images([step]), points[[step]]) == following
                else:
                    alive[following] = now[1:]
                    assert index.remove([now[0]]) == following

        with ThreadPoolExecutor(4) as pool:
            lookers = [pool.submit(look) for _ in range(3)]
            try:
                change()
            finally:
                done.set()
            assert all(looker.result() >= 20 for looker in lookers)
