"""Violations on a GPU, fused with the search for the smallest: the violations of all pairs of
query and row never exist at once.

The first stage scores every row and keeps the smallest violation of each tile of rows. The k-th
smallest of those bounds the k-th violation from above, because k tiles hold a row each that is no
worse. The second stage scores the few tiles again whose smallest violation is within the bound.

Points are stored by coordinate, (N, R): each thread then adds up rows of its own and reads beside
its neighbours. One query is limited by the memory, many by the three instructions that each pair of
coordinates takes.

The kernels are Triton's. Without a GPU they run in its interpreter (TRITON_INTERPRET=1, set before
this module is imported), as tests do. Its compiler accepts no annotations but its own, so kernels
have none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn.functional import pad

from hasse.index.types import Orientation

jit = cast(Callable[[Callable[..., Any]], Any], triton.jit)

TILE = 64  # rows
STEP = 8  # coordinates between two tests for the end
_PAIRS = 1 << 16  # tiles scored again at one time: 16 MB of violations


class Shape(NamedTuple):
    """What one program of a kernel works on."""

    rows: int  # a multiple of TILE
    queries: int
    warps: int


# The fastest of those tried on an H100, by how many queries come at once.
SHAPES = {1: Shape(256, 1, 2), 8: Shape(128, 8, 2), 16: Shape(256, 16, 4)}
BLOCK = 256  # rows are stored in multiples of it, which all shapes divide


@jit
def _violations(  # type: ignore[no-untyped-def]
    columns, queries, rows, asked, row_stride, query_stride, dimension, orientation, total, step
):
    stored_at, asked_at = columns + rows, queries + asked
    for _ in range(0, dimension, step):
        for _ in tl.static_range(step):
            stored = tl.load(stored_at).to(tl.float32)[None, :]
            query = tl.load(asked_at)[:, None]
            if orientation == 2:
                total += query * stored
            else:
                if orientation == 0:
                    gap = tl.maximum(query - stored, 0.0)
                else:
                    gap = tl.maximum(stored - query, 0.0)
                total += gap * gap
            stored_at += row_stride
            asked_at += query_stride
    if orientation == 2:
        total = 1.0 - total
    return total


@jit
def _unless_excluded(total, excluded, rows, row_count, masked):  # type: ignore[no-untyped-def]
    # Rows that are excluded, or beyond the last one, are infinitely bad.
    alive = rows < row_count
    if masked:
        alive = alive & (tl.load(excluded + rows, mask=alive, other=1) == 0)
    return tl.where(alive[None, :], total, float("inf"))


@jit
def _smallest(  # type: ignore[no-untyped-def]
    columns,
    queries,
    excluded,
    out,
    row_count,
    row_stride,
    query_stride,
    dimension,
    orientation: tl.constexpr,
    masked: tl.constexpr,
    tile_rows: tl.constexpr,
    tiles: tl.constexpr,
    together: tl.constexpr,
    step: tl.constexpr,
):
    # Queries vary fastest, so that the programs that want a row find it in the cache.
    block = tl.program_id(1)
    many: tl.constexpr = tiles * tile_rows
    rows = block.to(tl.int64) * many + tl.arange(0, many)
    asked = tl.program_id(0) * together + tl.arange(0, together)
    total = tl.zeros((together, many), tl.float32)
    total = _violations(
        columns, queries, rows, asked, row_stride, query_stride, dimension, orientation, total, step
    )
    total = _unless_excluded(total, excluded, rows, row_count, masked)
    values = tl.min(tl.reshape(total, (together, tiles, tile_rows)), axis=2)
    at = block * tiles + tl.arange(0, tiles)
    place = asked.to(tl.int64)[:, None] * (row_stride // tile_rows) + at[None, :]
    tl.store(out + place, values)


@jit
def _tiles(  # type: ignore[no-untyped-def]
    columns,
    queries,
    excluded,
    pair_queries,
    pair_tiles,
    out,
    row_count,
    row_stride,
    query_stride,
    dimension,
    orientation: tl.constexpr,
    masked: tl.constexpr,
    tile_rows: tl.constexpr,
    step: tl.constexpr,
):
    pair = tl.program_id(0).to(tl.int64)
    rows = tl.load(pair_tiles + pair) * tile_rows + tl.arange(0, tile_rows)
    asked = tl.load(pair_queries + pair) + tl.arange(0, 1)
    total = tl.zeros((1, tile_rows), tl.float32)
    total = _violations(
        columns, queries, rows, asked, row_stride, query_stride, dimension, orientation, total, step
    )
    total = _unless_excluded(total, excluded, rows, row_count, masked)
    place = pair * tile_rows + tl.arange(0, tile_rows)
    tl.store(out + place[None, :], total)


def shape_of(rows: int, dimension: int) -> tuple[int, int]:
    """Return the shape of so many points as the kernels read them: (N, R), each rounded up."""
    return _up(dimension, STEP), _up(rows, BLOCK)


def columns_for(rows: int, dimension: int, device: torch.device) -> Tensor:
    """Return zeros for the coordinates of so many points: (N, R) as `shape_of` has it, float16."""
    return torch.zeros(shape_of(rows, dimension), device=device, dtype=torch.float16)


def smallest_of_tiles(
    columns: Tensor, queries: Tensor, excluded: Tensor | None, rows: int, orientation: Orientation
) -> Tensor:
    """Return each query's smallest violation in each tile: (N, R), (B, N) -> (B, R / TILE).

    `columns` is as `columns_for` made it, of which `rows` are points; queries are float32; excluded
    (rows,) is of bool. A tile without a live row has infinity. Sums are float32, in an order of
    the device's own.
    """
    shape = SHAPES[next((most for most in SHAPES if len(queries) <= most), max(SHAPES))]
    asked = _apart(queries, len(columns), shape.queries)
    out = torch.empty(asked.shape[1], columns.shape[1] // TILE, device=columns.device)
    _smallest[(asked.shape[1] // shape.queries, columns.shape[1] // shape.rows)](
        columns,
        asked,
        columns if excluded is None else excluded,
        out,
        rows,
        columns.shape[1],
        asked.shape[1],
        len(columns),
        orientation=int(orientation),
        masked=excluded is not None,
        tile_rows=TILE,
        tiles=shape.rows // TILE,
        together=shape.queries,
        step=STEP,
        num_warps=shape.warps,
        enable_fp_fusion=True,
    )
    return out[: len(queries)]


def violations_of_tiles(
    columns: Tensor,
    queries: Tensor,
    excluded: Tensor | None,
    rows: int,
    orientation: Orientation,
    pair_queries: Tensor,
    pair_tiles: Tensor,
) -> Tensor:
    """Return the violations of all rows of pairs (P,) of a query and a tile: -> (P, TILE)."""
    asked = _apart(queries, len(columns), 1)
    out = torch.empty(len(pair_queries), TILE, device=columns.device)
    for at in range(0, len(out), _PAIRS):
        part = slice(at, at + _PAIRS)
        _tiles[(len(out[part]),)](
            columns,
            asked,
            columns if excluded is None else excluded,
            pair_queries[part],
            pair_tiles[part],
            out[part],
            rows,
            columns.shape[1],
            asked.shape[1],
            len(columns),
            orientation=int(orientation),
            masked=excluded is not None,
            tile_rows=TILE,
            step=STEP,
            num_warps=1,
            enable_fp_fusion=True,
        )
    return out


def _apart(queries: Tensor, dimension: int, multiple: int) -> Tensor:
    """Transpose queries, with zeros up to the size that kernels read: -> (N, B)."""
    count, own = queries.shape
    return pad(queries, (0, dimension - own, 0, _up(count, multiple) - count)).T.contiguous()


def _up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple
