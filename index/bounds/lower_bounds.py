"""Lower bounds on the violations of one segment, from compressed points.

    columns.npy    uint8 (R / 2H, N, H), half a byte per coordinate, see `index.bounds.quantizer`
    levels.npy     float32 (2, N, LEVELS): the levels, and the share of the rows at each
    codes.npy      uint8 (R, N), a byte per coordinate, see `hasse.index.bounds.byte_codes`

A search takes three steps: it scans the columns of all rows, reads the bytes of the remaining rows,
and scores the points of the rows that remain then.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hasse.index.bounds import byte_codes as coding
from hasse.index.bounds import nibble_scan
from hasse.index.bounds.files import CODES, COLUMNS, LEVELS_FILE
from hasse.index.bounds.quantizer import LEVELS, PAGE, choose_levels, encode_block, half_block
from hasse.index.bounds.query_tables import GROUP, Tables, tables_of
from hasse.index.kernels.arrays import GrowingArray, advise_random, map_array, read_only
from hasse.index.kernels.candidates import Candidates, starts_of
from hasse.index.kernels.threads import Workers
from hasse.index.kernels.violations import relative_error
from hasse.index.types import Ids, Orientation, Points


@dataclass(slots=True, eq=False)
class BatchState:
    """A batch of queries (B, N) and its partial sums over a segment's columns.

    Attributes:
        tables: tables of the queries.
        codes: (B, N) byte codes of the queries.
        sums: (B, R / 2H, 2H) uint16 sums over the first `summed_groups` of coordinates.
        summed_groups: (B,) numbers of groups in `sums`.
        bytes_read: (B,).
        error: (B,) how far a float32 violation may be below the true one, as a difference.
        ratio: the smallest ratio of a float32 violation to the true one, in addition.
        lengths: (B, 2) lengths of the queries' parts, for the cosine.
    """

    tables: Tables
    codes: NDArray[np.uint8]
    sums: NDArray[np.uint16]
    summed_groups: NDArray[np.int64]
    bytes_read: NDArray[np.int64]
    error: NDArray[np.float64]
    ratio: float
    lengths: NDArray[np.float64]

    def largest(self, limits: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the largest true violations of rows whose float32 ones may be <= `limits` (B,)."""
        return (limits + self.error) / self.ratio


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
        codes = map_array(folder / CODES, np.uint8, shape)
        advise_random(codes)
        return cls(
            map_array(folder / COLUMNS, np.uint8, (blocks, dimension, half)),
            map_array(folder / LEVELS_FILE, np.float32, (2, dimension, LEVELS)),
            codes,
            step,
            orientation,
            rows,
        )

    def begin(self, queries: Points) -> BatchState:
        """Prepare queries (B, N), without reading any row."""
        queries = read_only(queries)
        blocks, dimension, half = self.columns.shape
        count = len(queries)
        return BatchState(
            tables_of(queries, self.levels[0], self.levels[1], self.orientation),
            coding.encode_queries(queries, self.step, self.orientation),
            np.empty((count, blocks, 2 * half), np.uint16),
            np.zeros(count, np.int64),
            np.zeros(count, np.int64),
            np.full(count, dimension * 2.0**-126),  # squares of gaps below 2^-63 vanish
            1 - relative_error(dimension) - 1e-12,
            np.zeros((count, 2)),
        )

    def propose(
        self,
        state: BatchState,
        count: int,
        share: float,
        excluded: NDArray[np.bool_],
        workers: Workers,
    ) -> tuple[Candidates, NDArray[np.float64]]:
        """Return up to `count` live rows with the smallest partial sums for each query.

        Sums are over the coordinates that are expected to add `share` of the violation, or over
        all. Also returns, for each query (B,), a lower bound on all other live rows.
        """
        tables, sums = state.tables, state.sums
        state.summed_groups[:] = tables.groups(share)
        blocks, _, half = self.columns.shape
        bytes_read = blocks * GROUP * half * state.summed_groups
        state.bytes_read += bytes_read

        def add(edges: tuple[int, int]) -> None:
            parts = (tables.order, tables.entries, tables.shifts, state.summed_groups)
            nibble_scan.add_groups(self.columns, *parts, *edges, sums)

        workers.map(add, workers.ranges(blocks, int(bytes_read.sum()) // blocks))
        self._add_row_terms(state)
        queries = len(sums)
        chosen_rows = np.empty((queries, min(count, self.rows)), np.int64)
        counts, rests = np.empty(queries, np.int64), np.empty(queries)

        def choose(edges: tuple[int, int]) -> None:
            nibble_scan.smallest(sums, self.rows, excluded, *edges, chosen_rows, counts, rests)

        workers.map(choose, workers.ranges(queries, sums[0].nbytes))
        pairs = zip(chosen_rows, counts.tolist(), strict=True)
        least = tables.bases + rests * tables.units
        return Candidates.of([rows[:n] for rows, n in pairs]), least

    def _add_row_terms(self, state: BatchState) -> None:
        """Add the terms that depend on the row alone; only the cosine has some."""

    def survivors(
        self,
        state: BatchState,
        excluded: NDArray[np.bool_],
        limits: NDArray[np.float64],
        workers: Workers,
    ) -> tuple[Candidates, NDArray[np.int64]]:
        """Return, for each query, every live row whose violation may be within its limit.

        Also returns, for each query (B,), how many rows the columns did not rule out. The bytes of
        these rows are read, if the segment has bytes.
        """
        largest = state.largest(limits).tolist()
        rows, starts = self._scan(state, excluded, state.tables.thresholds(largest), workers)
        possible, checked = np.ones(len(rows), np.bool_), starts[1:] - starts[:-1]
        if len(self.codes):
            thresholds = np.array([coding.threshold(each, self.step) for each in largest], np.int64)
            queries = (state.codes, int(self.orientation), thresholds)

            def part(edges: tuple[int, int]) -> None:
                coding.rule_out(self.codes, rows, starts, *queries, *edges, possible)

            dimension = self.codes.shape[1]
            workers.map(part, workers.ranges(len(rows), dimension))
            state.bytes_read += dimension * checked
        return Candidates(*coding.survivors_of(rows, starts, possible)), checked

    def _scan(
        self,
        state: BatchState,
        excluded: NDArray[np.bool_],
        thresholds: NDArray[np.int64],
        workers: Workers,
    ) -> tuple[NDArray[np.int32], Ids]:
        """Return the rows that the columns do not rule out, query by query, and their starts.

        The rows of a query are in no order.
        """
        tables, count = state.tables, len(thresholds)
        blocks, dimension, half = self.columns.shape

        def part(edges: tuple[int, int]) -> tuple[list[NDArray[np.int32]], NDArray[np.int64]]:
            possible_rows = np.empty((count, (edges[1] - edges[0]) * 2 * half), np.int32)
            counts, added_groups = np.zeros(count, np.int64), np.zeros(count, np.int64)
            nibble_scan.rule_out(
                self.columns,
                self.rows,
                excluded,
                tables.order,
                tables.entries,
                tables.shifts,
                thresholds,
                state.summed_groups,
                *edges,
                state.sums,
                possible_rows,
                counts,
                added_groups,
            )
            pairs = zip(possible_rows, counts.tolist(), strict=True)
            return [rows[:n] for rows, n in pairs], added_groups

        # Estimate: as many bytes as `propose` read, or a quarter of the columns.
        estimate = int(state.bytes_read.sum()) // blocks or half * dimension * count // 4
        parts = workers.map(part, workers.ranges(blocks, estimate))
        for _, added_groups in parts:
            state.bytes_read += GROUP * half * added_groups
        by_query = list(zip(*(rows for rows, _ in parts), strict=True))
        starts = starts_of(sum(map(len, rows)) for rows in by_query)
        return np.concatenate([rows for parts in by_query for rows in parts]), starts


def write_bounds(folder: Path, points: Points, orientation: Orientation, page: int = PAGE) -> float:
    """Write the codes of a segment's points (R, N), in bounded memory; return their step."""
    rows, dimension = points.shape
    largest = np.zeros(dimension, np.float32)
    half = half_block(rows, page)
    for at in range(0, rows, 2 * half):
        np.maximum(largest, points[at : at + 2 * half].max(0), out=largest)
    step = coding.step_for(float(largest.max(initial=0)))
    levels, shares = choose_levels(points, largest, orientation)
    file = GrowingArray(folder / LEVELS_FILE, "<f4", (dimension, LEVELS))
    file.append(np.stack([levels, shares]))
    file.close()
    transposed = np.ascontiguousarray(levels.T)
    block = np.empty((dimension, half), np.uint8)
    columns = GrowingArray(folder / COLUMNS, "|u1", (dimension, half))
    codes = GrowingArray(folder / CODES, "|u1", (dimension,))
    for at in range(0, rows, 2 * half):
        encode_block(points, at, transposed, int(orientation), block)
        columns.append(block[None])
        block_codes = np.empty((min(2 * half, rows - at), dimension), np.uint8)
        coding.encode_rows(points[at : at + 2 * half], step, orientation, block_codes)
        codes.append(block_codes)
    columns.close()
    codes.close()
    return step
