from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from hasse.index import durable
from hasse.index.errors import BadRowsError, DiskFullError, ModelMismatchError
from hasse.index.search.query import Query
from hasse.index.segments.change import Change
from hasse.index.segments.writer import writing
from hasse.index.store import Index
from tests.index.samples import captions, embeddings, images, model

POINTS = embeddings(np.random.default_rng(0), 40, 16)


def test_additions_of_several_threads_are_all_there_and_each_is_judged_alone(
    tmp_path: Path,
) -> None:
    with Index.create(tmp_path / "i", model(), threads=1) as index:

        def add(id_: int) -> int:
            return index.add(images([id_]), POINTS[[id_]], captions([id_], [id_]), POINTS[[id_]])

        with ThreadPoolExecutor(6) as pool:
            jobs = [pool.submit(add, id_) for id_ in (*range(10), 5)]
        refused = [job for job in jobs if job.exception()]
        assert len(refused) == 1
        with pytest.raises(BadRowsError, match="is in the index already"):
            refused[0].result()
        done = [job.result() for job in jobs if not job.exception()]
        assert sorted(done) == list(range(1, 11))
        assert set(index.search(Query("image", 50), np.zeros(16)).ids.tolist()) == set(range(10))
        assert set(index.catalog.captions(range(50))) == set(range(10))


def test_addition_on_a_full_disk_is_refused_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with Index.create(tmp_path / "i", model(), threads=1) as index:
        index.add(images([0]), POINTS[:1])
        with monkeypatch.context() as patched:
            patched.setattr(durable, "write", full)
            with pytest.raises(DiskFullError, match="nothing was changed"):
                index.add(images([1]), POINTS[[1]])
        assert len(list((tmp_path / "i" / "segments").iterdir())) == 1
        assert index.generation == 1
        index.add(images([1]), POINTS[[1]])
        assert index.search(Query("image", 5), POINTS[0]).searched == 2


def test_writer_of_another_model_changes_nothing(tmp_path: Path) -> None:
    with Index.create(tmp_path / "i", model(), threads=1) as index:
        index.add(images([0]), POINTS[:1])
        other = model(name="other")
        with writing(index.folder, index.catalog, other, 0.0) as writer:
            with pytest.raises(ModelMismatchError, match="re-encoded with the model 'sample'"):
                writer.change(Change(images([1]), POINTS[:1]))
            with pytest.raises(ModelMismatchError, match="re-encoded with the model 'sample'"):
                writer.change(Change(removed_by_name=[0]))
        assert not index.refresh()
