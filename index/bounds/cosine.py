"""Lower bounds on the violations of the cosine: half-byte codes, and each row's distance from them.

A basis B has orthonormal columns, the directions in which rows vary most. The coordinates of a row
in it, c = B's, are stored as the nearest of sixteen levels, t. With d = B'q and w = q - Bd, the
part of a query outside the basis,

    <s, q>  =  <t, d>  +  <c - t, d>  +  <s, w>

By Cauchy and Schwarz the last two terms are at most |c - t| |d| and |s - Bc| |w|, so the lengths
|c - t| and |s - Bc| are stored for each row. (A basis of floats is not quite orthogonal: |c| |B'w|
is added for that.)

The scan of `index.bounds.nibble_scan` adds non-negative terms. For each coordinate, the term is the
largest product d_j t_j of any level minus that of the row's level. The initial sum of a row is the
difference between the longest residuals of the segment and its own.

    basis.npy        float32 (N, M): B
    columns.npy      uint8 (R / 2H, M, H), as in `hasse.index.bounds.lower_bounds`
    levels.npy       float32 (2, M, LEVELS): the levels, twice
    residuals.npy    float32 (R / 2H, 2, 2H): |c - t| and |s - Bc|, in the order of the sums
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hasse.index.bounds import nibble_scan
from hasse.index.bounds.files import BASIS, COLUMNS, LEVELS_FILE, RESIDUALS
from hasse.index.bounds.lower_bounds import BatchState, Bounds
from hasse.index.bounds.quantizer import LEVELS, PAGE, encode_block, half_block
from hasse.index.bounds.query_tables import GROUP, MAX_SUM, Tables
from hasse.index.kernels.arrays import GrowingArray, map_array, read_only
from hasse.index.kernels.compiling import kernel
from hasse.index.kernels.violations import relative_error
from hasse.index.types import Orientation, Points

_MAX_MISSED = 0.06  # share of the rows' squared lengths outside the basis
_SAMPLE = 8192  # rows from which the basis and the levels are computed
_ITERATIONS = 8  # of Lloyd's algorithm
_MAX_SHIFT = 5  # units of a group: 1, 2, ..., 32 of the query's
_BELOW = 1 - 2.0**-40  # moves a quotient past its own rounding error
_LENGTH_ERROR = 1e-12  # more than the relative error of a length in float64


@dataclass(frozen=True, slots=True, eq=False)
class CosineBounds(Bounds):
    """Lower bounds on the violations of one segment's rows.

    Attributes:
        basis: (N, M) float64.
        residuals: (R / 2H, 2, 2H); 0 beyond the last row.
        largest_residuals: (2,).
    """

    basis: NDArray[np.float64]
    residuals: NDArray[np.float32]
    largest_residuals: NDArray[np.float64]

    @classmethod
    def open(
        cls,
        folder: Path,
        step: float,
        orientation: Orientation,
        shape: tuple[int, int],
        page: int = PAGE,
    ) -> CosineBounds:
        """Map the codes of a segment of (R, N) points, the longest of which has the length `step`.

        Raises:
            DamagedIndexError: a file disagrees with the segment.
        """
        rows, dimension = shape
        half = half_block(rows, page)
        blocks = -(-rows // (2 * half))
        basis = map_array(folder / BASIS, np.float32, (dimension, None))
        directions = basis.shape[1]
        residuals = map_array(folder / RESIDUALS, np.float32, (blocks, 2, 2 * half))
        return cls(
            map_array(folder / COLUMNS, np.uint8, (blocks, directions, half)),
            map_array(folder / LEVELS_FILE, np.float32, (2, directions, LEVELS)),
            read_only(np.empty((0, dimension), np.uint8)),
            step,
            orientation,
            rows,
            basis.astype(np.float64),
            residuals,
            residuals.max((0, 2), initial=0).astype(np.float64),
        )

    def begin(self, queries: Points) -> BatchState:
        """Prepare queries (B, N), without reading any row."""
        exact = queries.astype(np.float64)
        coordinates = exact @ self.basis
        rest = exact - coordinates @ self.basis.T
        lengths = np.stack([_lengths(coordinates), _lengths(rest)], axis=1)
        length = _lengths(exact)
        # The basis is nearly orthogonal: coordinates are at most 1.01 times as long as their row.
        overlap = 1.01 * self.step * _lengths(rest @ self.basis)
        rounding = 1e-9 * (1 + self.step * length)
        bases = 1 - lengths @ self.largest_residuals - overlap - rounding
        blocks, _, half = self.columns.shape
        count = len(queries)
        return BatchState(
            _tables_of(coordinates, self.levels[0], bases),
            np.empty((count, 0), np.uint8),
            np.empty((count, blocks, 2 * half), np.uint16),
            np.zeros(count, np.int64),
            np.zeros(count, np.int64),
            # For the rounding of a product of N terms in any order, and of its difference from 1.
            2 * relative_error(len(self.basis)) * (1 + self.step * length),
            1.0,
            lengths,
        )

    def _add_row_terms(self, state: BatchState) -> None:
        scales = state.lengths / state.tables.units[:, None]
        _add_residuals(self.residuals, self.largest_residuals, scales, state.sums)
        state.bytes_read += self.residuals.nbytes


def _lengths(points: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.linalg.norm(points, axis=-1) * (1 + _LENGTH_ERROR))


@kernel
def _add_residuals(
    residuals: NDArray[np.float32],
    largest: NDArray[np.float64],
    scales: NDArray[np.float64],
    sums: NDArray[np.uint16],
) -> None:
    # The factor 1 - 2^-20 covers the rounding of float32.
    first, second = np.float32(largest[0]), np.float32(largest[1])
    for b in range(sums.shape[0]):
        by_first = np.float32(scales[b, 0] * (1 - 2.0**-20))
        by_second = np.float32(scales[b, 1] * (1 - 2.0**-20))
        for block in range(sums.shape[1]):
            block_sums = sums[b, block]
            for place in range(sums.shape[2]):
                term = (first - residuals[block, 0, place]) * by_first
                term += (second - residuals[block, 1, place]) * by_second
                total = np.int32(block_sums[place]) + np.int32(term)
                block_sums[place] = total if total < MAX_SUM else MAX_SUM


def _tables_of(
    coordinates: NDArray[np.float64], levels: NDArray[np.float32], bases: NDArray[np.float64]
) -> Tables:
    """Make the tables of queries' coordinates (B, M), for levels (M, LEVELS).

    `bases` (B,) are lower bounds on a violation without the products of the coordinates.
    """
    count, dimension = coordinates.shape
    groups = -(-dimension // GROUP)
    order = np.zeros((count, groups + 1, GROUP), np.int32)
    entries = np.zeros((count, groups, GROUP, LEVELS), np.uint8)
    shifts, units = np.zeros((count, groups), np.int64), np.empty(count)
    lowest = np.empty(count)
    _tabulate(coordinates, levels, bases, order, entries, shifts, units, lowest)
    # All groups are looked up for any share, because few of them say little about a product.
    return Tables(order, entries, shifts, units, np.zeros((count, groups)), lowest)


@kernel
def _tabulate(
    coordinates: NDArray[np.float64],
    levels: NDArray[np.float32],
    bases: NDArray[np.float64],
    order: NDArray[np.int32],
    entries: NDArray[np.uint8],
    shifts: NDArray[np.int64],
    units: NDArray[np.float64],
    lowest: NDArray[np.float64],
) -> None:
    dimension = coordinates.shape[1]
    losses, negative_ranges = np.zeros((dimension, LEVELS)), np.zeros(dimension)
    for b in range(coordinates.shape[0]):
        total = 0.0
        for j in range(dimension):
            most, least = -np.inf, np.inf
            for at in range(LEVELS):
                product = coordinates[b, j] * levels[j, at]
                losses[j, at] = product
                most, least = max(most, product), min(least, product)
            negative_ranges[j] = least - most  # negative, so that the widest are sorted first
            total += most
            for at in range(LEVELS):
                losses[j, at] = most - losses[j, at]
        lowest[b] = bases[b] - total
        # The largest violation of points of unit length is 2, which must be below the largest sum.
        units[b] = max((2 - lowest[b]) / (MAX_SUM - 1), 1e-30)
        by_range = np.argsort(negative_ranges)
        for group in range(shifts.shape[1]):
            first = group * GROUP
            shift, top = 0, -negative_ranges[by_range[first]] / (255 * units[b])
            while shift < _MAX_SHIFT and top > 2.0**shift:
                shift += 1
            shifts[b, group] = shift
            scale = _BELOW / (units[b] * 2.0**shift)
            for g in range(min(GROUP, dimension - first)):
                j = by_range[first + g]
                order[b, group, g] = j
                for at in range(LEVELS):
                    entries[b, group, g, at] = np.int32(min(losses[j, at] * scale, 255.0))


def write_cosine_bounds(folder: Path, points: Points, page: int = PAGE) -> float:
    """Write the codes of points (R, N), in bounded memory; return the largest of their lengths."""
    rows = len(points)
    half = half_block(rows, page)
    sample = points[:: max(1, rows // _SAMPLE)].astype(np.float64)
    basis = _choose_basis(sample)
    directions = basis.shape[1]
    levels = _choose_levels(sample @ basis)
    for name, array in ((BASIS, basis.astype(np.float32)), (LEVELS_FILE, np.stack([levels] * 2))):
        file = GrowingArray(folder / name, "<f4", array.shape[1:])
        file.append(array)
        file.close()
    edges = np.zeros((LEVELS, directions), np.float32)
    edges[:-1] = ((levels[:, :-1] + levels[:, 1:]) / 2).T
    columns = GrowingArray(folder / COLUMNS, "|u1", (directions, half))
    residuals = GrowingArray(folder / RESIDUALS, "<f4", (2, 2 * half))
    row_order = np.array([nibble_scan.row_of(place, half) for place in range(2 * half)])
    columns_block = np.empty((directions, half), np.uint8)
    longest = 0.0
    for at in range(0, rows, 2 * half):
        block = points[at : at + 2 * half].astype(np.float64)
        coordinates, general = block @ basis, int(Orientation.QUERY_GENERAL)
        encode_block(coordinates.astype(np.float32), 0, edges, general, columns_block)
        columns.append(columns_block[None])
        halves = [columns_block & 15, columns_block >> 4]
        codes = np.concatenate(halves, axis=1)[:, : len(block)]  # (M, rows)
        nearest = levels[np.arange(directions)[:, None], codes].T
        lengths = np.zeros((2, 2 * half), np.float32)
        for n, residual in enumerate((coordinates - nearest, block - coordinates @ basis.T)):
            rounded = _lengths(residual).astype(np.float32)
            lengths[n, : len(block)] = np.nextafter(rounded, np.float32(np.inf))
        residuals.append(lengths[:, row_order][None])
        longest = max(longest, float(_lengths(block).max(initial=0)))
    columns.close()
    residuals.close()
    return longest


def _choose_basis(sample: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return directions (N, M) in which points are longest, rounded to float32."""
    squares, directions = np.linalg.eigh(sample.T @ sample)
    missed = 1 - np.cumsum(squares[::-1]) / max(squares.sum(), 1e-300)
    enough = missed[-1] <= _MAX_MISSED
    count = 1 + int(np.argmax(missed <= _MAX_MISSED)) if enough else len(missed)
    count = min(len(missed), -(-count // GROUP) * GROUP)
    return np.asarray(directions[:, ::-1][:, :count].astype(np.float32).astype(np.float64))


def _choose_levels(sample: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return ascending levels (M, LEVELS) close to the coordinates of a sample (R, M).

    They start at quantiles; each then moves to the mean of the values nearest to it (Lloyd, 1982).
    """
    sample = np.sort(sample, axis=0)  # each coordinate separately
    shares = (np.arange(LEVELS) + 0.5) / LEVELS
    levels = np.quantile(sample, shares, axis=0).T.copy()  # (M, LEVELS)
    for values, row in zip(sample.T, levels, strict=True):
        sums = np.concatenate([[0.0], np.cumsum(values)])
        for _ in range(_ITERATIONS):
            ends = np.searchsorted(values, (row[:-1] + row[1:]) / 2)
            edges = np.concatenate([[0], ends, [len(values)]])
            counts = np.diff(edges)
            row[:] = np.where(counts > 0, np.diff(sums[edges]) / np.maximum(counts, 1), row)
        row.sort()
    return levels.astype(np.float32)
