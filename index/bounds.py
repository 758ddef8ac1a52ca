"""The codes of one segment on disk, and the rows they cannot rule out.

codes.npy    uint8 (R / BLOCK, N, BLOCK), see `index.codes`
levels.npy   float32 (N, LEVELS)
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from index import codes as coding
from index.codes import BLOCK, LEVELS, CodedQueries
from index.points import GrowingArray, mapped
from index.scan import Workers
from index.terms import Form, Points

CODES = "codes.npy"
LEVELS_FILE = "levels.npy"

# Blocks whose codes are counted to learn how large the gaps of a coordinate are.
_SAMPLED_BLOCKS = 64
# A strip of 64 rows is left when this many of them are possible hits: looking at one of them
# exactly reads as much as 16 more coordinates of the strip, from another place.
_PATIENCE = 1
# Coordinates that propose candidates where there is no prefilter: the heaviest eighth.
_PROPOSING = 8


@dataclass(frozen=True, slots=True, eq=False)
class Bounds:
    """Lower bounds on the violations of one segment's rows."""

    codes: NDArray[np.uint8]
    levels: NDArray[np.float32]
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
        codes = mapped(folder / CODES, np.uint8, (-(-rows // BLOCK), dimension, BLOCK))
        levels = mapped(folder / LEVELS_FILE, np.float32, (dimension, LEVELS))
        return cls(codes, levels, step, form, rows)

    def encode(self, queries: Points) -> CodedQueries:
        """Round queries (B, N) so that their gaps to the codes are too small."""
        return coding.encode_queries(queries, self.step, self.levels, self.form)

    def survivors(
        self,
        queries: CodedQueries,
        dead: NDArray[np.bool_],
        limits: NDArray[np.float64],
        workers: Workers,
    ) -> list[NDArray[np.int64]]:
        """Return, for each query, every live row whose violation may be <= its limit.

        Rows are in ascending order. No other live row has a violation that small.
        """
        count = len(queries.codes)
        thresholds = queries.thresholds(limits)

        def part(edges: tuple[int, int]) -> list[NDArray[np.int32]]:
            found = np.empty((count, (edges[1] - edges[0]) * BLOCK), np.int32)
            counts = np.zeros(count, np.int64)
            coding.survivors(
                self.codes,
                self.rows,
                dead,
                queries.order,
                queries.codes,
                int(self.form),
                thresholds,
                *edges,
                _PATIENCE,
                found,
                counts,
            )
            return [np.sort(rows[:n]) for rows, n in zip(found, counts.tolist(), strict=True)]

        dimension = self.codes.shape[1]
        parts = workers.map(
            part, workers.ranges(len(self.codes), BLOCK * dimension * count // _PROPOSING)
        )
        return [np.concatenate(rows).astype(np.int64) for rows in zip(*parts, strict=True)]

    def propose(
        self,
        queries: CodedQueries,
        b: int,
        count: int,
        dead: NDArray[np.bool_],
        workers: Workers,
    ) -> tuple[NDArray[np.int64], int]:
        """Return about `count` live rows that look best to query b by its heaviest coordinates.

        Also returns a sum of squared gaps that no other live row is below: when it exceeds the
        query's threshold, the rows proposed are all there are.
        """
        sums = np.empty(self.codes.shape[0] * BLOCK, np.uint32)
        heaviest = -(-self.codes.shape[1] // _PROPOSING)

        def part(edges: tuple[int, int]) -> None:
            coding.partial_sums(
                self.codes,
                queries.order[b],
                queries.codes[b],
                int(self.form),
                heaviest,
                *edges,
                sums,
            )

        workers.map(part, workers.ranges(len(self.codes), BLOCK * heaviest))
        sums = sums[: self.rows]
        if len(dead):
            sums[dead] = np.iinfo(np.uint32).max
        if count >= self.rows:
            chosen, rest = np.arange(self.rows), np.iinfo(np.int64).max
        else:
            order = np.argpartition(sums, count)
            chosen, rest = np.sort(order[:count]), int(sums[order[count]])
        return (chosen[~dead[chosen]] if len(dead) else chosen), rest


def write_bounds(folder: Path, points: Points, form: Form) -> float:
    """Write the codes of a segment's points (R, N), in bounded memory; return their step."""
    rows, dimension = points.shape
    step = coding.step_for(_largest(points))
    blocks = -(-rows // BLOCK)
    counts = np.zeros((dimension, 256), np.int64)
    every = -(-blocks // _SAMPLED_BLOCKS)
    block = np.empty((dimension, BLOCK), np.uint8)
    array = GrowingArray(folder / CODES, "|u1", (dimension, BLOCK))
    for at in range(blocks):
        block[:] = 0
        coding.encode_block(points, at * BLOCK, step, int(form), block)
        array.append(block[None])
        if at % every == 0:
            coding.count_codes(block, min(BLOCK, rows - at * BLOCK), counts)
    array.close()
    levels = GrowingArray(folder / LEVELS_FILE, "<f4", (LEVELS,))
    levels.append(coding.expected_gaps(counts, form))
    levels.close()
    return step


def _largest(points: Points) -> float:
    tall = 4096
    return max(
        (float(points[at : at + tall].max()) for at in range(0, len(points), tall)), default=0.0
    )
