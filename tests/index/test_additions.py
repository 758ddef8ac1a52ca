from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from index.errors import BadRowsError, DiskFullError
from index.store import Index
from tests.index.samples import captions, embeddings, images, model

POINTS = embeddings(np.random.default_rng(0), 40, 16)


def test_additions_that_wait_together_are_one_generation_and_each_is_judged_alone(
    tmp_path: Path,
) -> None:
    with Index.create(tmp_path / "i", model(), threads=1) as index:
        index.add(images([0]), POINTS[:1])

        def add(id_: int) -> int:
            return index.add(images([id_]), POINTS[[id_]], captions([id_], [id_]), POINTS[[id_]])

        with ThreadPoolExecutor(12) as pool:
            with index.writing():
                jobs = {id_: pool.submit(add, id_) for id_ in (0, *range(1, 11))}
                twice = pool.submit(add, 5)
                while len(index._additions._waiting) < 11:
                    threading.Event().wait(0.001)
            refused = [job for job in (*jobs.values(), twice) if job.exception()]
            generations = {job.result() for job in jobs.values() if not job.exception()}
        assert len(refused) == 2
        for job in refused:
            with pytest.raises(BadRowsError, match="is in the index already"):
                job.result()
        # The first took what had come by then, the second all that waited meanwhile.
        assert generations <= {2, 3}
        assert len(index.info().segments) == 1 + 2 * len(generations)
        assert set(index.search("image", np.zeros(16), 50).ids.tolist()) == set(range(11))
        assert set(index.captions(range(50))) == set(range(1, 11))


def test_a_caption_finds_its_image_among_what_is_written_with_it(tmp_path: Path) -> None:
    with Index.create(tmp_path / "i", model(), threads=1) as index, ThreadPoolExecutor(3) as pool:
        with index.writing():
            jobs = [pool.submit(index.add, images([0]), POINTS[[0]])]
            while not index._additions._turn.locked():
                threading.Event().wait(0.001)
            for waiting, rows in ((1, (images([1]), POINTS[[1]])), (2, ([], POINTS[:0]))):
                mine = (captions([1], [1]), POINTS[[1]]) if waiting == 2 else ()
                jobs.append(pool.submit(index.add, *rows, *mine))
                while len(index._additions._waiting) < waiting:
                    threading.Event().wait(0.001)
        for job in jobs:
            job.result()
        assert index.generation == 2
        assert set(index.captions([1])) == {1}


def test_a_full_disk_is_said_to_everyone_who_waited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_args: object) -> None:
        raise OSError(28, "No space left on device")

    with Index.create(tmp_path / "i", model(), threads=1) as index:
        index.add(images([0]), POINTS[:1])
        monkeypatch.setattr("index.durable.write", full)
        with ThreadPoolExecutor(4) as pool:
            jobs = []
            with index.writing():
                for id_ in (1, 2, 3, 0):  # the first writes alone, the second for all others
                    jobs.append(pool.submit(index.add, images([id_]), POINTS[[id_]]))
                    while not index._additions._turn.locked():
                        threading.Event().wait(0.001)
                while len(index._additions._waiting) < 3:
                    threading.Event().wait(0.001)
        with pytest.raises(BadRowsError, match="is in the index already"):
            jobs.pop().result()  # whatever became of the others
        for job in jobs:
            with pytest.raises(DiskFullError, match="nothing was changed"):
                job.result()
        monkeypatch.undo()
        assert index.generation == 1
        assert index.search("image", POINTS[0], 5).ids.tolist() == [0]
        index.add(images([1]), POINTS[[1]])
        assert len(list((tmp_path / "i" / "segments").iterdir())) == 2
