"""Which way a segment is searched: the one that costs less by constants that were measured.

The constants are of one core of a server with AVX-512 and trained points of 1,024 coordinates
(Flickr8k, grown to 65,536 rows); `python -m benchmarks.search.costs POINTS` prints them for another
machine. Only their ratios matter. They are committed, not measured at the start, so that one query
takes one way on every day; no way changes an answer that is certified or exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from index.types import Form


@dataclass(frozen=True, slots=True)
class Costs:
    """What a search costs; tuples are by form.

    Attributes:
        alone: nanoseconds to score one coordinate of each row, for a query alone.
        together: the same for each query of a large batch.
        codes: nanoseconds to bound one coordinate of each row, those that are left included.
        search: microseconds that a search by bounds takes beyond a scan, however small.
        row: microseconds to fetch and score a row chosen here or there.
    """

    alone: tuple[float, float, float]
    together: tuple[float, float, float]
    codes: tuple[float, float, float]
    search: float
    row: float


COSTS = Costs(
    alone=(0.075, 0.14, 0.15),
    together=(0.029, 0.050, 0.085),
    codes=(0.0055, 0.0135, np.inf),
    search=100.0,
    row=0.4,
)


def is_scanned(
    form: Form, rows: int, dimension: int, proposed: int, batch: int, *, proved: bool
) -> bool:
    """Tell whether scoring all rows costs less than proposing some and, if `proved`, bounding all.

    `proposed` rows are chosen for each of `batch` queries.
    """
    size = rows * dimension / 1000
    scanned = max(COSTS.alone[form] / max(1, batch), COSTS.together[form]) * size
    chosen = COSTS.search + COSTS.row * proposed + (COSTS.codes[form] * size if proved else 0.0)
    return scanned <= chosen
