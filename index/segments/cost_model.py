"""Whether a segment is scanned or searched by bounds: whichever costs less by measured constants.

The constants are of one core of a server with AVX-512 and trained points of 1,024 coordinates
(Flickr8k, grown to 65,536 rows); `python -m benchmarks.search.costs POINTS` prints them for another
machine. Only their ratios matter. They are committed, not measured at startup, so that a query is
always searched the same way; certified and exact answers do not depend on it.
"""

from __future__ import annotations

from dataclasses import dataclass

from hasse.index.types import Orientation


@dataclass(frozen=True, slots=True)
class Costs:
    """What a search costs.

    Attributes:
        alone: nanoseconds to score one coordinate of each row, for a query alone.
        together: the same for each query of a large batch.
        codes: nanoseconds to bound one coordinate of each row and to score the survivors, by
            orientation.
        search: microseconds that a search by bounds takes beyond a scan, however small.
        row: microseconds to fetch and score one candidate.
    """

    alone: float = 0.15
    together: float = 0.085
    codes: tuple[float, float, float] = (0.0055, 0.0135, 0.026)
    search: float = 100.0
    row: float = 0.4

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
        """Tell whether scoring all rows costs less than scoring candidates and bounding the rest.

        There are so many candidates for each of `batch` queries; the others are bounded if the
        answer is to be `proved`.
        """
        size = rows * dimension / 1000
        scan = max(self.alone / max(1, batch), self.together) * size
        bounds = self.codes[orientation] * size if proved else 0.0
        return scan <= self.search + self.row * candidates + bounds


MEASURED = Costs()


@dataclass(frozen=True, slots=True)
class Thresholds:
    """From which size on a segment is not simply scanned.

    Attributes:
        bounds_from_bytes: of points; below 16 MB a scan takes half a millisecond, which no bound
            can improve on.
        prefilter_from_rows: from so many rows on, a FAISS index is made where one helps.
        costs: decide between a scan and bounds where there are bounds.
    """

    bounds_from_bytes: int = 16 << 20
    prefilter_from_rows: int = 20_000
    costs: Costs = MEASURED


DEFAULT = Thresholds()
