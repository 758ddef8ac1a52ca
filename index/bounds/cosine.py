"""Lower bounds on the violations of the cosine: half-byte codes, and how far each row is from its.

Rows are turned into the directions in which they are longest, by a basis B with columns of unit
length at right angles, and of these coordinates, c = B's, the first few are kept at the nearest of
sixteen levels, t. With d = B'q and w = q - Bd, which is what the basis misses of a query,

    <s, q>  =  <t, d>  +  <c - t, d>  +  <s, w>

By Cauchy and Schwarz the last two are at most |c - t| |d| and |s - Bc| |w|, so each row keeps these
two lengths. (A basis of floats is not quite orthogonal: |c| |B'w| is added for that.)

The scan of `index.bounds.nibble_scan` adds non-negative terms: for each coordinate, how far the
product d_j t_j of the row's level is below the largest product of any level. A row whose own
lengths are shorter than the longest ones starts with that difference.

    basis.npy        float32 (N, M): B
    columns.npy      uint8 (R / 2H, M, H), as of `hasse.index.bounds.lower_bounds`
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
from hasse.index.bounds.lower_bounds import Bounded, Bounds
from hasse.index.bounds.quantizer import LEVELS, PAGE, encode_block, half_block
from hasse.index.bounds.query_tables import GROUP, MOST, Tables
from hasse.index.errors import DamagedIndexError
from hasse.index.kernels.arrays import GrowingArray, mapped, read_only
from hasse.index.kernels.candidates import Candidates
from hasse.index.kernels.compiling import kernel
from hasse.index.kernels.threads import Workers
from hasse.index.kernels.violations import relative_error
from hasse.index.types import Orientation, Points

_LEFT = 0.06  # share of the rows' squared lengths that the basis may miss
_SAMPLE = 8192  # rows from which the basis and the levels are computed
_ROUNDS = 8  # of moving levels to the mean of what is nearest to them
_MOST_SHIFT = 5  # units of a group: 1, 2, ..., 32 of the query's
_BELOW = 1 - 2.0**-40  # moves a quotient past its own rounding
_ROUNDED = 1e-12  # more than the relative error of a length in float64


@dataclass(frozen=True, slots=True, eq=False)
class CosineBounds(Bounds):
    """Lower bounds on the violations of one segment's rows.

    Attributes:
        basis: (N, M) float64.
        residuals: (R / 2H, 2, 2H); 0 where there is no row.
        furthest: (2,) the largest of each.
    """

    basis: NDArray[np.float64]
    residuals: NDArray[np.float32]
    furthest: NDArray[np.float64]

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
        kept = kept_coordinates(folder / BASIS)
        basis = mapped(folder / BASIS, np.float32, (dimension, kept))
        residuals = mapped(folder / RESIDUALS, np.float32, (blocks, 2, 2 * half))
        return cls(
            mapped(folder / COLUMNS, np.uint8, (blocks, kept, half)),
            mapped(folder / LEVELS_FILE, np.float32, (2, kept, LEVELS)),
            read_only(np.empty((0, dimension), np.uint8)),
            step,
            orientation,
            rows,
            basis.astype(np.float64),
            residuals,
            residuals.max((0, 2), initial=0).astype(np.float64),
        )

    def begin(self, queries: Points) -> Bounded:
        """Prepare queries (B, N); nothing of the segment's rows is read yet."""
        whole = queries.astype(np.float64)
        turned = whole @ self.basis
        missed = whole - turned @ self.basis.T
        lengths = np.stack([_lengths(turned), _lengths(missed)], axis=1)
        length = _lengths(whole)
        # The basis is so nearly orthogonal that no coordinates are longer than 1.01 of their row.
        leaked = 1.01 * self.step * _lengths(missed @ self.basis)
        rounded = 1e-9 * (1 + self.step * length)
        bases = 1 - lengths @ self.furthest - leaked - rounded
        blocks, _, half = self.columns.shape
        count = len(queries)
        return Bounded(
            _tables_of(turned, self.levels[0], bases),
            np.empty((count, 0), np.uint8),
            np.empty((count, blocks, 2 * half), np.uint16),
            np.zeros(count, np.int64),
            np.zeros(count, np.int64),
            # Rounding of a product of N terms in any order, and of its difference from 1.
            2 * relative_error(len(self.basis)) * (1 + self.step * length),
            1.0,
            lengths,
        )

    def propose(
        self,
        bounded: Bounded,
        count: int,
        share: float,
        excluded: NDArray[np.bool_],
        workers: Workers,
    ) -> tuple[Candidates, NDArray[np.float64]]:
        """Return up to `count` live rows that look best to each query, by all coordinates.

        What a coordinate misses says little alone, so there is no `share` that would do. Also
        returns, for each query (B,), a violation that no other live row is below.
        """
        return Bounds.propose(self, bounded, count, 1.0, excluded, workers)

    def _finish(self, bounded: Bounded) -> None:
        scales = bounded.lengths / bounded.tables.units[:, None]
        _add_residuals(self.residuals, self.furthest, scales, bounded.sums)
        bounded.read += self.residuals.nbytes


def kept_coordinates(path: Path) -> int:
    """Return M, of a basis.

    Raises:
        DamagedIndexError: the file holds no matrix.
    """
    try:
        shape = np.load(path, mmap_mode="r", allow_pickle=False).shape
    except (ValueError, EOFError) as error:
        raise DamagedIndexError(f"{path} is not an array file ({error})") from error
    if len(shape) != 2:
        raise DamagedIndexError(f"{path} holds no matrix")
    return int(shape[1])


def _lengths(points: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.linalg.norm(points, axis=-1) * (1 + _ROUNDED))


@kernel
def _add_residuals(
    residuals: NDArray[np.float32],
    furthest: NDArray[np.float64],
    scales: NDArray[np.float64],
    sums: NDArray[np.uint16],
) -> None:
    # In float32, whose rounding 2^-20 is more than.
    first, second = np.float32(furthest[0]), np.float32(furthest[1])
    for b in range(sums.shape[0]):
        by_first = np.float32(scales[b, 0] * (1 - 2.0**-20))
        by_second = np.float32(scales[b, 1] * (1 - 2.0**-20))
        for block in range(sums.shape[1]):
            own = sums[b, block]
            for place in range(sums.shape[2]):
                more = (first - residuals[block, 0, place]) * by_first
                more += (second - residuals[block, 1, place]) * by_second
                total = np.int32(own[place]) + np.int32(more)
                own[place] = total if total < MOST else MOST


def _tables_of(
    turned: NDArray[np.float64], levels: NDArray[np.float32], bases: NDArray[np.float64]
) -> Tables:
    """Make the tables of queries' coordinates (B, M), for levels (M, LEVELS).

    `bases` (B,) are the least violations where no coordinate gives anything.
    """
    count, dimension = turned.shape
    groups = -(-dimension // GROUP)
    order = np.zeros((count, groups + 1, GROUP), np.int32)
    entries = np.zeros((count, groups, GROUP, LEVELS), np.uint8)
    shifts, units = np.zeros((count, groups), np.int64), np.empty(count)
    lowest = np.empty(count)
    _tabulate(turned, levels, bases, order, entries, shifts, units, lowest)
    return Tables(order, entries, shifts, units, np.zeros((count, groups)), lowest)


@kernel
def _tabulate(
    turned: NDArray[np.float64],
    levels: NDArray[np.float32],
    bases: NDArray[np.float64],
    order: NDArray[np.int32],
    entries: NDArray[np.uint8],
    shifts: NDArray[np.int64],
    units: NDArray[np.float64],
    lowest: NDArray[np.float64],
) -> None:
    dimension = turned.shape[1]
    missed, widest = np.zeros((dimension, LEVELS)), np.zeros(dimension)
    for b in range(turned.shape[0]):
        total = 0.0
        for j in range(dimension):
            most, least = -np.inf, np.inf
            for at in range(LEVELS):
                product = turned[b, j] * levels[j, at]
                missed[j, at] = product
                most, least = max(most, product), min(least, product)
            widest[j] = least - most  # negative, so that the widest come first
            total += most
            for at in range(LEVELS):
                missed[j, at] = most - missed[j, at]
        lowest[b] = bases[b] - total
        # The largest violation of points of unit length, 2, still has to be below the largest sum.
        units[b] = max((2 - lowest[b]) / (MOST - 1), 1e-30)
        chosen = np.argsort(widest)
        for group in range(shifts.shape[1]):
            first = group * GROUP
            shift, top = 0, -widest[chosen[first]] / (255 * units[b])
            while shift < _MOST_SHIFT and top > 2.0**shift:
                shift += 1
            shifts[b, group] = shift
            scale = _BELOW / (units[b] * 2.0**shift)
            for g in range(min(GROUP, dimension - first)):
                j = chosen[first + g]
                order[b, group, g] = j
                for at in range(LEVELS):
                    entries[b, group, g, at] = np.int32(min(missed[j, at] * scale, 255.0))


def write_cosine_bounds(folder: Path, points: Points, page: int = PAGE) -> float:
    """Write the codes of points (R, N), in bounded memory; return the largest of their lengths."""
    rows = len(points)
    half = half_block(rows, page)
    sample = points[:: max(1, rows // _SAMPLE)].astype(np.float64)
    basis = _basis(sample)
    kept = basis.shape[1]
    levels = _choose_levels(sample @ basis)
    for name, array in ((BASIS, basis.astype(np.float32)), (LEVELS_FILE, np.stack([levels] * 2))):
        facts = GrowingArray(folder / name, "<f4", array.shape[1:])
        facts.append(array)
        facts.close()
    edges = np.zeros((LEVELS, kept), np.float32)
    edges[:-1] = ((levels[:, :-1] + levels[:, 1:]) / 2).T
    columns = GrowingArray(folder / COLUMNS, "|u1", (kept, half))
    residuals = GrowingArray(folder / RESIDUALS, "<f4", (2, 2 * half))
    places = np.array([nibble_scan.row_of(place, half) for place in range(2 * half)])
    block = np.empty((kept, half), np.uint8)
    longest = 0.0
    for at in range(0, rows, 2 * half):
        own = points[at : at + 2 * half].astype(np.float64)
        turned = own @ basis
        encode_block(turned.astype(np.float32), 0, edges, int(Orientation.QUERY_GENERAL), block)
        columns.append(block[None])
        coded = np.concatenate([block & 15, block >> 4], axis=1)[:, : len(own)]  # (M, rows)
        near = levels[np.arange(kept)[:, None], coded].T
        lengths = np.zeros((2, 2 * half), np.float32)
        for one, left in enumerate((turned - near, own - turned @ basis.T)):
            exact = _lengths(left).astype(np.float32)
            lengths[one, : len(own)] = np.nextafter(exact, np.float32(np.inf))
        residuals.append(lengths[:, places][None])
        longest = max(longest, float(_lengths(own).max(initial=0)))
    columns.close()
    residuals.close()
    return longest


def _basis(sample: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return directions (N, M) in which points are longest, as float32 can say them."""
    squares, directions = np.linalg.eigh(sample.T @ sample)
    left = 1 - np.cumsum(squares[::-1]) / max(squares.sum(), 1e-300)
    kept = 1 + int(np.argmax(left <= _LEFT)) if left[-1] <= _LEFT else len(left)
    kept = min(len(left), -(-kept // GROUP) * GROUP)
    return np.asarray(directions[:, ::-1][:, :kept].astype(np.float32).astype(np.float64))


def _choose_levels(sample: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return levels (M, LEVELS), ascending, near which the coordinates of a sample (R, M) are.

    They begin at quantiles, and each goes to the mean of the values nearest to it (Lloyd, 1982).
    """
    sample = np.sort(sample, axis=0)  # each coordinate by itself
    shares = (np.arange(LEVELS) + 0.5) / LEVELS
    levels = np.quantile(sample, shares, axis=0).T.copy()  # (M, LEVELS)
    for values, own in zip(sample.T, levels, strict=True):
        sums = np.concatenate([[0.0], np.cumsum(values)])
        for _ in range(_ROUNDS):
            ends = np.searchsorted(values, (own[:-1] + own[1:]) / 2)
            edges = np.concatenate([[0], ends, [len(values)]])
            counts = np.diff(edges)
            own[:] = np.where(counts > 0, np.diff(sums[edges]) / np.maximum(counts, 1), own)
        own.sort()
    return levels.astype(np.float32)
