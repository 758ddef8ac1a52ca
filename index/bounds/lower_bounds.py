"""Lower bounds on the violations of one segment: files of codes, and the rows they cannot rule out.

    columns.npy    uint8 (R / 2H, N, H), half a byte per coordinate, see `index.bounds.quantizer`
    levels.npy     float32 (2, N, LEVELS): the levels, and the share of the rows at each
    codes.npy      uint8 (R, N), a byte per coordinate, see `hasse.index.bounds.byte_codes`

A search takes three steps, each on the few rows that the last one did not rule out: a scan of the
columns, the bytes of a row, its point. Where many images ask for captions, the first step
multiplies the bytes of all rows instead (`index.bounds.byte_products`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hasse.index.bounds import byte_codes as coding
from hasse.index.bounds import byte_products, nibble_scan
from hasse.index.bounds.files import CODES, COLUMNS, LEVELS_FILE
from hasse.index.bounds.quantizer import LEVELS, PAGE, choose_levels, encode_block, half_block
from hasse.index.bounds.query_tables import GROUP, Tables, tables_of
from hasse.index.kernels.arrays import GrowingArray, advise_random, mapped, read_only
from hasse.index.kernels.candidates import Candidates, starts_of
from hasse.index.kernels.threads import Workers
from hasse.index.kernels.violations import relative_error
from hasse.index.types import Ids, Orientation, Points

# From so many queries on, multiplying all bytes takes less than looking up half bytes.
_BATCH = 8


@dataclass(slots=True, eq=False)
class Bounded:
    """A batch of queries (B, N) and how far each has been compared with a segment's columns.

    Attributes:
        tables: of the queries.
        codes: (B, N) of the queries.
        sums: (B, R / 2H, 2H) uint16, of the first `done` (B,) groups of coordinates.
        read: (B,) bytes that were read.
        error: (B,) absolute error by which a float32 violation may be below the true one.
        kept: least ratio of a float32 violation to the true one, beside that.
        lengths: (B, 2) of the queries' parts, where bounds depend on them.
    """

    tables: Tables
    codes: NDArray[np.uint8]
    sums: NDArray[np.uint16]
    done: NDArray[np.int64]
    read: NDArray[np.int64]
    error: NDArray[np.float64]
    kept: float
    lengths: NDArray[np.float64]

    def largest(self, limits: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the largest true violations of rows whose float32 ones may be <= `limits` (B,)."""
        return (limits + self.error) / self.kept


@dataclass(frozen=True, slots=True, eq=False)
class Bounds:
    """Lower bounds on the violations of one segment's rows; `codes` has no rows for the cosine."""

    columns: NDArray[np.uint8]
    levels: NDArray[np.float32]
    codes: NDArray[np.uint8]
    step: float
    orientation: Orientation
    rows: int

    @classmethod
    def open(
        cls,
        folder: Path,
        step: float,
        orientation: Orientation,
        shape: tuple[int, int],
        page: int = PAGE,
    ) -> Bounds:
        """Map the codes of a segment of (R, N) points.

        Raises:
            DamagedIndexError: a file disagrees with the segment.
        """
        rows, dimension = shape
        half = half_block(rows, page)
        blocks = -(-rows // (2 * half))
        codes = mapped(folder / CODES, np.uint8, shape)
        advise_random(codes)
        return cls(
            mapped(folder / COLUMNS, np.uint8, (blocks, dimension, half)),
            mapped(folder / LEVELS_FILE, np.float32, (2, dimension, LEVELS)),
            codes,
            step,
            orientation,
            rows,
        )

    def begin(self, queries: Points) -> Bounded:
        """Prepare queries (B, N); nothing of the segment's rows is read yet."""
        queries = read_only(queries)
        blocks, dimension, half = self.columns.shape
        count = len(queries)
        if self._multiplies(count):
            tables = Tables.none(count)
        else:
            tables = tables_of(queries, self.levels[0], self.levels[1], self.orientation)
        return Bounded(
            tables,
            coding.encode_queries(queries, self.step, self.orientation),
            np.empty((count, blocks, 2 * half), np.uint16),
            np.zeros(count, np.int64),
            np.zeros(count, np.int64),
            np.full(count, dimension * 2.0**-126),  # squares of gaps below 2^-63 vanish
            1 - relative_error(dimension) - 1e-12,
            np.zeros((count, 2)),
        )

    def _multiplies(self, queries: int) -> bool:
        """Tell whether so many queries are compared with all bytes, and not with the columns.

        A caption needs few of an image's coordinates, its own largest, and columns of these are
        read. Which ones an image needs of a caption differs from row to row.
        """
        return queries >= _BATCH and self.orientation is Orientation.STORED_GENERAL

    def propose(
        self,
        bounded: Bounded,
        count: int,
        share: float,
        excluded: NDArray[np.bool_],
        workers: Workers,
    ) -> tuple[Candidates, NDArray[np.float64]]:
        """Return up to `count` live rows that look best to each query.

        They are chosen by the coordinates that are expected to add `share` of the violation, or by
        all. Also returns, for each query (B,), a violation that no other live row is below.
        """
        tables, sums = bounded.tables, bounded.sums
        bounded.done[:] = tables.groups(share)
        if self._multiplies(len(sums)):
            self._multiply(bounded, workers)
        else:
            self._look_up(bounded, workers)
        queries = len(sums)
        chosen = np.empty((queries, min(count, self.rows)), np.int64)
        counts, rests = np.empty(queries, np.int64), np.empty(queries)

        def choose(edges: tuple[int, int]) -> None:
            nibble_scan.smallest(sums, self.rows, excluded, *edges, chosen, counts, rests)

        workers.map(choose, workers.ranges(queries, sums[0].nbytes))
        pairs = zip(chosen, counts.tolist(), strict=True)
        least = tables.bases + rests * tables.units
        return Candidates.of([rows[:n] for rows, n in pairs]), least

    def _look_up(self, bounded: Bounded, workers: Workers) -> None:
        """Write the sums of the first groups of coordinates."""
        tables = bounded.tables
        blocks, _, half = self.columns.shape
        read = blocks * GROUP * half * bounded.done
        bounded.read += read

        def add(edges: tuple[int, int]) -> None:
            parts = (tables.order, tables.entries, tables.shifts, bounded.done)
            nibble_scan.add_groups(self.columns, *parts, *edges, bounded.sums)

        workers.map(add, workers.ranges(blocks, int(read.sum()) // blocks))
        self._finish(bounded)

    def _multiply(self, bounded: Bounded, workers: Workers) -> None:
        """Write the sums of all coordinates."""
        blocks, dimension, half = self.columns.shape
        count, orientation = len(bounded.codes), self.orientation
        queries = byte_products.padded(bounded.codes, orientation)
        shift = byte_products.shift_for(self.codes, queries, orientation)
        # A little less, for the rounding of the unit and of its multiples.
        bounded.tables.units[:] = self.step**2 * 2.0**shift * (1 - 2.0**-40)
        bounded.read += self.codes.nbytes // count
        sums = bounded.sums.reshape(count, blocks * 2 * half)

        def multiply(edges: tuple[int, int]) -> None:
            parts = (self.codes, queries, int(orientation), shift, half)
            byte_products.add_products(*parts, *edges, sums)

        workers.map(multiply, workers.ranges(blocks, 2 * half * dimension))

    def _finish(self, bounded: Bounded) -> None:
        """Add the initial values of rows to the sums; here there are none."""

    def survivors(
        self,
        bounded: Bounded,
        excluded: NDArray[np.bool_],
        limits: NDArray[np.float64],
        workers: Workers,
    ) -> tuple[Candidates, NDArray[np.int64]]:
        """Return, for each query, every live row whose violation may be <= its limit.

        No other live row has a violation that small. Also returns how many rows of each query
        (B,) the columns did not rule out; the bytes of these are read, where there are bytes.
        """
        largest = bounded.largest(limits).tolist()
        rows, starts = self._scan(bounded, excluded, bounded.tables.thresholds(largest), workers)
        possible, checked = np.ones(len(rows), np.bool_), starts[1:] - starts[:-1]
        if len(self.codes):
            thresholds = np.array([coding.threshold(most, self.step) for most in largest], np.int64)
            queries = (bounded.codes, int(self.orientation), thresholds)

            def part(edges: tuple[int, int]) -> None:
                coding.rule_out(self.codes, rows, starts, *queries, *edges, possible)

            dimension = self.codes.shape[1]
            workers.map(part, workers.ranges(len(rows), dimension))
            bounded.read += dimension * checked
        return Candidates(*coding.survivors_of(rows, starts, possible)), checked

    def _scan(
        self,
        bounded: Bounded,
        excluded: NDArray[np.bool_],
        thresholds: NDArray[np.int64],
        workers: Workers,
    ) -> tuple[NDArray[np.int32], Ids]:
        """Return the rows that the columns do not rule out, query by query, and their starts.

        Those of a query come in any order.
        """
        tables, count = bounded.tables, len(thresholds)
        blocks, dimension, half = self.columns.shape

        def part(edges: tuple[int, int]) -> tuple[list[NDArray[np.int32]], NDArray[np.int64]]:
            listed = np.empty((count, (edges[1] - edges[0]) * 2 * half), np.int32)
            counts, added = np.zeros(count, np.int64), np.zeros(count, np.int64)
            nibble_scan.rule_out(
                self.columns,
                self.rows,
                excluded,
                tables.order,
                tables.entries,
                tables.shifts,
                thresholds,
                bounded.done,
                *edges,
                bounded.sums,
                listed,
                counts,
                added,
            )
            return [rows[:n] for rows, n in zip(listed, counts.tolist(), strict=True)], added

        # About as much of the columns remains to be read as was read to propose, if anything was.
        ahead = int(bounded.read.sum()) // blocks or half * dimension * count // 4
        parts = workers.map(part, workers.ranges(blocks, ahead))
        for _, added in parts:
            bounded.read += GROUP * half * added
        by_query = list(zip(*(rows for rows, _ in parts), strict=True))
        starts = starts_of(sum(map(len, rows)) for rows in by_query)
        return np.concatenate([rows for every in by_query for rows in every]), starts


def write_bounds(folder: Path, points: Points, orientation: Orientation, page: int = PAGE) -> float:
    """Write the codes of a segment's points (R, N), in bounded memory; return their step."""
    rows, dimension = points.shape
    largest = np.zeros(dimension, np.float32)
    half = half_block(rows, page)
    for at in range(0, rows, 2 * half):
        np.maximum(largest, points[at : at + 2 * half].max(0), out=largest)
    step = coding.step_for(float(largest.max(initial=0)))
    levels, shares = choose_levels(points, largest, orientation)
    facts = GrowingArray(folder / LEVELS_FILE, "<f4", (dimension, LEVELS))
    facts.append(np.stack([levels, shares]))
    facts.close()
    transposed = np.ascontiguousarray(levels.T)
    block = np.empty((dimension, half), np.uint8)
    columns = GrowingArray(folder / COLUMNS, "|u1", (dimension, half))
    codes = GrowingArray(folder / CODES, "|u1", (dimension,))
    for at in range(0, rows, 2 * half):
        encode_block(points, at, transposed, int(orientation), block)
        columns.append(block[None])
        coded = np.empty((min(2 * half, rows - at), dimension), np.uint8)
        coding.encode_rows(points[at : at + 2 * half], step, orientation, coded)
        codes.append(coded)
    columns.close()
    codes.close()
    return step
