"""The codes of one segment on disk, and the rows they cannot rule out.

    columns.npy    uint8 (R / 2H, N, H), half a byte per coordinate, see `index.levels`
    levels.npy     float32 (2, N, LEVELS): the levels, and the share of the rows at each
    codes.npy      uint8 (R, N), a byte per coordinate, see `index.codes`

Three steps, each on the few rows that the one before leaves: a scan of the columns, the bytes of a
row, its point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from index import codes as coding
from index import nibbles
from index.kernels import relative_error
from index.levels import LEVELS, choose_levels, encode_block, half_block
from index.points import GrowingArray, mapped, read_here_and_there
from index.scan import Workers, read_only
from index.tables import GROUP, Tables, tables_of
from index.terms import Form, Ids, Points

COLUMNS = "columns.npy"
LEVELS_FILE = "levels.npy"
CODES = "codes.npy"

Number = TypeVar("Number", bound=np.generic)

_TALL = 4096  # rows at a time, for bounded memory


@dataclass(slots=True, eq=False)
class Bounded:
    """A batch of queries (B, N) and how far each has been compared with a segment's columns.

    sums (B, R / 2H, 2H) uint16 are those of the first `done` (B,) groups of coordinates; `read`
    (B,) are the bytes that were read.
    """

    tables: Tables
    codes: NDArray[np.uint8]
    sums: NDArray[np.uint16]
    done: NDArray[np.int64]
    read: NDArray[np.int64]
    dimension: int

    def largest(self, limit: float) -> float:
        """Return the largest true violation of a row whose float32 violation may be <= `limit`.

        The float32 one may be below the true one by its rounding error, and by what vanishes in
        the squares of gaps below 2^-63.
        """
        slack = 1 - relative_error(self.dimension) - 1e-12
        return (limit + self.dimension * 2.0**-126) / slack


@dataclass(frozen=True, slots=True, eq=False)
class Bounds:
    """Lower bounds on the violations of one segment's rows."""

    columns: NDArray[np.uint8]
    levels: NDArray[np.float32]
    codes: NDArray[np.uint8]
    step: float
    form: Form
    rows: int

    @classmethod
    def open(cls, folder: Path, step: float, form: Form, shape: tuple[int, int]) -> Bounds:
        """Map the codes of a segment of (R, N) points.

        Raises:
            DamagedIndexError: a file is not what the segment says.
        """
        rows, dimension = shape
        half = half_block(rows)
        blocks = -(-rows // (2 * half))
        codes = mapped(folder / CODES, np.uint8, shape)
        read_here_and_there(codes)
        return cls(
            mapped(folder / COLUMNS, np.uint8, (blocks, dimension, half)),
            mapped(folder / LEVELS_FILE, np.float32, (2, dimension, LEVELS)),
            codes,
            step,
            form,
            rows,
        )

    def begin(self, queries: Points) -> Bounded:
        """Prepare queries (B, N); nothing of the segment's rows is read yet."""
        queries = read_only(queries)
        blocks, dimension, half = self.columns.shape
        count = len(queries)
        return Bounded(
            tables_of(queries, self.levels[0], self.levels[1], self.form),
            coding.encode_queries(queries, self.step, self.form),
            np.zeros((count, blocks, 2 * half), np.uint16),
            np.zeros(count, np.int64),
            np.zeros(count, np.int64),
            dimension,
        )

    def propose(
        self,
        bounded: Bounded,
        b: int,
        count: int,
        share: float,
        dead: NDArray[np.bool_],
        workers: Workers,
    ) -> tuple[Ids, float]:
        """Return up to `count` live rows that look best to query b, in ascending order.

        They are chosen by the coordinates that are expected to add `share` of the violation. Also
        returns a violation that no other live row is below.
        """
        tables, sums = bounded.tables, bounded.sums[b]
        blocks, _, half = self.columns.shape
        groups = tables.groups(b, share)

        def part(edges: tuple[int, int]) -> None:
            parts = (tables.order[b], tables.entries[b], tables.shifts[b])
            nibbles.add_groups(self.columns, *parts, groups, *edges, sums)

        workers.map(part, workers.ranges(blocks, groups * GROUP * half))
        bounded.done[b] = groups
        bounded.read[b] += blocks * groups * GROUP * half
        rows, rest = nibbles.smallest(sums, self.rows, dead, count)
        return rows, rest * float(tables.units[b])

    def survivors(
        self,
        bounded: Bounded,
        dead: NDArray[np.bool_],
        limits: NDArray[np.float64],
        workers: Workers,
    ) -> tuple[list[Ids], list[int]]:
        """Return, for each query, every live row whose violation may be <= its limit.

        Rows are in ascending order. No other live row has a violation that small. Also returns
        how many rows of each query the columns left, whose bytes were read.
        """
        largest = [bounded.largest(limit) for limit in limits.tolist()]
        left = self._left(bounded, dead, bounded.tables.thresholds(largest), workers)
        rows = [
            self._bytes(bounded, b, rows, coding.threshold(most, self.step), workers)
            for b, (rows, most) in enumerate(zip(left, largest, strict=True))
        ]
        return rows, [len(rows) for rows in left]

    def _left(
        self,
        bounded: Bounded,
        dead: NDArray[np.bool_],
        thresholds: NDArray[np.int64],
        workers: Workers,
    ) -> list[NDArray[np.int32]]:
        tables, count = bounded.tables, len(thresholds)
        blocks, dimension, half = self.columns.shape

        def part(edges: tuple[int, int]) -> tuple[list[NDArray[np.int32]], NDArray[np.int64]]:
            found = np.empty((count, (edges[1] - edges[0]) * 2 * half), np.int32)
            counts, added = np.zeros(count, np.int64), np.zeros(count, np.int64)
            nibbles.rule_out(
                self.columns,
                self.rows,
                dead,
                tables.order,
                tables.entries,
                tables.shifts,
                thresholds,
                bounded.done,
                *edges,
                bounded.sums,
                found,
                counts,
                added,
            )
            return [rows[:n] for rows, n in zip(found, counts.tolist(), strict=True)], added

        parts = workers.map(part, workers.ranges(blocks, half * dimension * count // 4))
        for _, added in parts:
            bounded.read += GROUP * half * added
        found = zip(*(rows for rows, _ in parts), strict=True)
        return [_joined(rows) for rows in found]

    def _bytes(
        self,
        bounded: Bounded,
        b: int,
        rows: NDArray[np.int32],
        threshold: int,
        workers: Workers,
    ) -> Ids:
        asked, form = bounded.codes[b], int(self.form)

        def part(edges: tuple[int, int]) -> Ids:
            chosen = rows[slice(*edges)]
            kept = np.empty(len(chosen), np.int64)
            count = coding.rule_out(self.codes, chosen, asked, form, threshold, kept)
            return kept[:count]

        dimension = self.codes.shape[1]
        bounded.read[b] += len(rows) * dimension
        parts = workers.map(part, workers.ranges(len(rows), dimension))
        found = _joined(parts) if parts else np.empty(0, np.int64)
        found.sort()
        return found


def _joined(parts: Sequence[NDArray[Number]]) -> NDArray[Number]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def write_bounds(folder: Path, points: Points, form: Form) -> float:
    """Write the codes of a segment's points (R, N), in bounded memory; return their step."""
    rows, dimension = points.shape
    largest = np.zeros(dimension, np.float32)
    for at in range(0, rows, _TALL):
        np.maximum(largest, points[at : at + _TALL].max(0), out=largest)
    step = coding.step_for(float(largest.max(initial=0)))
    levels, shares = choose_levels(points, largest, form)
    facts = GrowingArray(folder / LEVELS_FILE, "<f4", (dimension, LEVELS))
    facts.append(np.stack([levels, shares]))
    facts.close()
    half = half_block(rows)
    transposed = np.ascontiguousarray(levels.T)
    block = np.empty((dimension, half), np.uint8)
    columns = GrowingArray(folder / COLUMNS, "|u1", (dimension, half))
    codes = GrowingArray(folder / CODES, "|u1", (dimension,))
    for at in range(0, rows, 2 * half):
        encode_block(points, at, transposed, int(form), block)
        columns.append(block[None])
        coded = np.empty((min(2 * half, rows - at), dimension), np.uint8)
        coding.encode_rows(points[at : at + 2 * half], step, form, coded)
        codes.append(coded)
    columns.close()
    codes.close()
    return step
