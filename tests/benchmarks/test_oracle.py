from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.search import oracle
from hasse.index.search.query import Answer, Query
from hasse.index.store import Index
from hasse.index.types import KINDS, Kind, Points
from tests.benchmarks.samples import source
from tests.index.samples import images, model


def answered(folder: Path, points: Points, queries: Points) -> list[Answer]:
    with Index.create(folder, model(points.shape[1]), threads=1) as index:
        index.add(images(range(len(points))), points)
        return list(index.search_batch(Query("image", 10), queries))


def test_a_true_answer_passes_and_any_change_to_it_is_found(tmp_path: Path) -> None:
    sample = source()
    queries = sample.asking_captions[:3]
    blocks = [(0, sample.images[:100]), (100, sample.images[100:])]
    answers = answered(tmp_path / "i", sample.images, queries)
    oracle.check(answers, queries, blocks, "image")

    ids, violations = answers[1].ids.copy(), answers[1].violations.copy()
    ids[4] = next(at for at in range(300) if at not in ids)
    violations[7] *= 1.001
    for wrong in (
        replace(answers[1], ids=ids),
        replace(answers[1], violations=violations),
        replace(answers[1], ids=answers[0].ids, violations=answers[0].violations),
    ):
        with pytest.raises(oracle.WrongAnswerError, match="query 1, certified"):
            oracle.check([answers[0], wrong, answers[2]], queries, blocks, "image")


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_tie_may_change_places(kind: Kind) -> None:
    points = np.tile(source().images[:1], (30, 1))
    query = source().asking_captions[:1]
    gap = query - points if kind == "image" else points - query
    value = np.square(np.maximum(0, gap)).sum(axis=1)[:10].astype(np.float32)
    blank = Answer.__new__(Answer)
    for name, field in (("ids", np.arange(10)), ("violations", value), ("mode", "exact")):
        object.__setattr__(blank, name, field)
    oracle.check([blank], query, [(0, points)], kind)
