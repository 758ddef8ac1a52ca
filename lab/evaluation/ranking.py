"""Ranking metrics that count ties fairly.

The rank of a query is the rank of its best true item. With distinct penalties that is the
published protocol (R@K is a hit rate: any of an image's captions will do). Published code leaves
ties to the sort. Here the rank is 1 + (false items strictly better) + half of the false items
tied with it, so a model that gives everything the same penalty scores as chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class RankingMetrics:
    """Retrieval quality over a set of queries; recalls and precision in percent.

    Attributes:
        r1, r5, r10: share of queries with a true item among the first 1, 5, 10 items.
        median, mean: of the 1-based rank of the best true item.
        mean_average_precision: over all true items of a query, averaged over queries.
        queries: number of queries.
        tied: queries whose best true item ties with a false one.
    """

    r1: float
    r5: float
    r10: float
    median: float
    mean: float
    mean_average_precision: float
    queries: int
    tied: int

    @classmethod
    def of(
        cls, ranks: NDArray[np.float64], precisions: NDArray[np.float64], tied: int
    ) -> RankingMetrics:
        """Summarise ranks (Q,) and average precisions (Q,)."""
        r1, r5, r10 = (100 * float(np.mean(ranks <= k)) for k in (1, 5, 10))
        return cls(
            r1,
            r5,
            r10,
            # The reference's floor(median of 0-based ranks) + 1.
            float(np.floor(np.median(ranks - 1)) + 1),
            float(np.mean(ranks)),
            100 * float(np.mean(precisions)),
            len(ranks),
            tied,
        )

    @classmethod
    def mean_of(cls, blocks: Sequence[RankingMetrics]) -> RankingMetrics:
        """Average over blocks, the median too; queries and ties are added up."""
        rows = np.array([astuple(block) for block in blocks])
        means, counts = rows[:, :-2].mean(0), rows[:, -2:].sum(0)
        return cls(*means.tolist(), *counts.astype(int).tolist())


@dataclass(frozen=True, slots=True)
class Ranking:
    """Ranks of the true items of Q queries.

    Attributes:
        images: (Q,), the row of each query's image; of a caption, the image of its annotation.
        ranks: (Q,), 1-based, of the best true item.
        precisions: (Q,), the average precision over all true items, in (0, 1].
        tied: queries whose best true item ties with a false one.
    """

    images: NDArray[np.int64]
    ranks: NDArray[np.float64]
    precisions: NDArray[np.float64]
    tied: int

    @property
    def metrics(self) -> RankingMetrics:
        """Summarise."""
        return RankingMetrics.of(self.ranks, self.precisions, self.tied)


def best_ranks(
    penalty: NDArray[np.float32], true: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], int]:
    """Rank each query's best true item: (Q, R), (Q, R) -> (Q,), and how many are tied.

    Every query must have a true item.
    """
    best = np.where(true, penalty, np.inf).min(1, keepdims=True)
    better = (penalty < best).sum(1)  # nothing true is better than the best true item
    ties = ((penalty == best) & ~true).sum(1)
    return 1 + better + ties / 2, int(np.count_nonzero(ties))


def average_precisions(
    penalty: NDArray[np.float32], true: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Return the average precision of each query: (Q, R), (Q, R) -> (Q,), in (0, 1].

    Ties are counted together, so their order does not matter.
    """
    out = np.empty(len(penalty))
    for query, (row, is_true) in enumerate(zip(penalty, true, strict=True)):
        true_penalties = np.sort(row[is_true])
        # At each true item: the number of true items so far, divided by that of all so far.
        true_so_far = np.searchsorted(true_penalties, true_penalties, side="right")
        out[query] = (
            true_so_far / np.searchsorted(np.sort(row), true_penalties, side="right")
        ).mean()
    return out
