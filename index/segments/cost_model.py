"""Chooses between a scan and a search by bounds: the cheaper one by measured constants.

The constants were measured on one core of a server with AVX-512, with trained points of 1,024
coordinates (Flickr8k, grown to 65,536 rows). `python -m benchmarks.search.costs POINTS` prints them
for another machine. Only their ratios matter. They are fixed, not measured at startup, so that a
query is always searched the same way. Certified and exact answers do not depend on them.
"""

from __future__ import annotations

from dataclasses import dataclass

from hasse.index.types import Orientation


@dataclass(frozen=True, slots=True)
class Costs:
    """Times of the steps of a search.

    Attributes:
        single_scan: nanoseconds to score one coordinate of a row, for a single query.
        batch_scan: the same for each query of a large batch.
        bound: nanoseconds to bound one coordinate of a row, and to score the survivors, by
            orientation.
        overhead: microseconds that every search by bounds takes in addition.
        candidate: microseconds to fetch and score one candidate.
    """

    single_scan: float = 0.15
    batch_scan: float = 0.085
    bound: tuple[float, float, float] = (0.0055, 0.0135, 0.026)
    overhead: float = 100.0
    candidate: float = 0.4

    def favor_scan(
        self,
        orientation: Orientation,
        rows: int,
        dimension: int,
        candidates: int,
        batch: int,
        *,
        proved: bool,
    ) -> bool:
        """Return whether scoring all rows costs less than scoring candidates and bounding the rest.

        `candidates` is the number for each of `batch` queries. The other rows are bounded only if
        the answer must be `proved`.
        """
        size = rows * dimension / 1000
        scan = max(self.single_scan / max(1, batch), self.batch_scan) * size
        bounds = self.bound[orientation] * size if proved else 0.0
        return scan <= self.overhead + self.candidate * candidates + bounds


MEASURED = Costs()


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Sizes from which a segment gets bounds and a FAISS index.

    Attributes:
        bounds_from_bytes: size of the points; below 16 MB a scan takes half a millisecond, which
            bounds cannot improve.
        prefilter_from_rows: number of rows for a FAISS index, beside bounds, where one helps.
        costs: choose between a scan and bounds in segments with bounds.
    """

    bounds_from_bytes: int = 16 << 20
    prefilter_from_rows: int = 20_000
    costs: Costs = MEASURED


DEFAULT = Thresholds()
