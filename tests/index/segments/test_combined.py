from __future__ import annotations

from pathlib import Path

import numpy as np

from hasse.index.search.query import Query
from hasse.index.store import Index
from hasse.index.types import MODES
from tests.index.samples import embeddings, images, model, violations
from tests.oracle import best

POINTS = embeddings(np.random.default_rng(0), 120, 16)


def test_many_small_segments_are_searched_as_one(tmp_path: Path) -> None:
    with Index.create(tmp_path / "i", model(), threads=1) as index:
        for id_ in range(60):
            index.add(images([id_]), POINTS[[id_]])
        index.remove([7, 30])
        alive = np.delete(np.arange(60), [7, 30])
        for live in (index, Index.open(tmp_path / "i", threads=1)):
            assert len(live.info().segments) == 60
            assert len(live.snapshot.segments_of("image")) == 1
            for query in POINTS[100:110]:
                expected = violations("image", "order", POINTS[alive], query)
                for mode in MODES:
                    answer = live.search(Query("image", 9, mode), query)
                    assert answer.ids.tolist() == best(expected, alive, 9).tolist()
                    assert (answer.searched, answer.certified) == (58, True)
        live.close()


def test_search_sees_its_own_generation_while_rows_are_joined_behind_it(tmp_path: Path) -> None:
    with Index.create(tmp_path / "i", model(), threads=1) as index:
        for id_ in range(3):
            index.add(images([id_]), POINTS[[id_]])
        (before,) = index.snapshot.segments_of("image")
        held = before.segment.points.tobytes()
        for id_ in range(3, 50):
            index.add(images([id_]), POINTS[[id_]])
            (now,) = index.snapshot.segments_of("image")
            assert now.segment.ids.tolist() == list(range(id_ + 1))
            assert np.array_equal(now.segment.points, POINTS[: id_ + 1])
        assert before.segment.points.tobytes() == held
        assert now.segment.record.name != before.segment.record.name
