"""The truth for a few queries, by the plainest means: numpy, float64, every row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numba as _numba
import numpy as np
from numpy.typing import NDArray

from hasse.index.search.query import Answer
from hasse.index.types import Ids, Kind, Points

numba: Any = _numba
# Two rows may change places in float32 where their violations differ by less than its rounding.
TOLERANCE = 1e-5


class WrongAnswerError(Exception):
    """An answer that was said to be exact is not."""


def equal(name: str, found: NDArray[Any], wanted: NDArray[Any]) -> None:
    """Require the same bits of what `name` answered.

    Raises:
        WrongAnswerError: they are not.
    """
    if not np.array_equal(found, wanted):
        raise WrongAnswerError(f"{name} answered {found.tolist()}, not {wanted.tolist()}")


def same(name: str, answers: Sequence[Answer], wanted: Sequence[Answer]) -> None:
    """Require the same bits of all answers.

    Raises:
        WrongAnswerError: one is not what is wanted.
    """
    for b, (found, other) in enumerate(zip(answers, wanted, strict=True)):
        equal(f"query {b}, {name}:", found.ids, other.ids)
        equal(f"query {b}, {name}:", found.violations, other.violations)


def check(
    answers: Sequence[Answer], queries: Points, blocks: Iterable[tuple[int, Points]], kind: Kind
) -> None:
    """Compare answers with the k smallest violations of all rows, which come in blocks.

    Raises:
        WrongAnswerError: an answer lacks a row, has one too many, or a wrong violation.
    """
    k = len(answers[0].ids)
    best = [(np.empty(0, np.int64), np.empty(0)) for _ in answers]
    for start, points in blocks:
        for b, query in enumerate(queries):
            point = query.astype(np.float64)
            gap = point - points if kind == "image" else points - point
            distances = np.square(np.maximum(0, gap)).sum(axis=1)
            ids = np.concatenate([best[b][0], np.arange(start, start + len(points))])
            values = np.concatenate([best[b][1], distances])
            # Twice as many as asked for, so that ties around the k-th are all there.
            order = np.lexsort((ids, values))[: 2 * k]
            best[b] = ids[order], values[order]
    for b, (answer, (ids, values)) in enumerate(zip(answers, best, strict=True)):
        slack = TOLERANCE * values[k - 1] + 1e-12
        needed, allowed = ids[values < values[k - 1] - slack], ids[values <= values[k - 1] + slack]
        if (
            not np.isin(needed, answer.ids).all()
            or not np.isin(answer.ids, allowed).all()
            or not np.allclose(answer.violations, values[:k], rtol=TOLERANCE, atol=1e-12)
        ):
            raise WrongAnswerError(
                f"query {b}, {answer.mode}: answered {answer.ids.tolist()} "
                f"{answer.violations.tolist()}, and numpy finds {ids[:k].tolist()} "
                f"{values[:k].tolist()}"
            )


@numba.njit(fastmath=True, nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _violations(
    points: Points, rows: Ids, query: Points, query_general: bool, violations: Points
) -> None:
    for at in range(rows.shape[0]):
        row = points[rows[at]]
        total = np.float32(0)
        if query_general:
            for j in range(query.shape[0]):
                gap = max(query[j] - row[j], np.float32(0))
                total += gap * gap
        else:
            for j in range(query.shape[0]):
                gap = max(row[j] - query[j], np.float32(0))
                total += gap * gap
        violations[at] = total


def violations(points: Points, rows: Ids, query: Points, kind: Kind) -> Points:
    """Return E of chosen rows (n,) of points (R, N) with one query (N,).

    A caption that searches images is above them; an image that searches captions is below.
    """
    result = np.empty(len(rows), np.float32)
    _violations(points, rows, query, kind == "image", result)
    return result
