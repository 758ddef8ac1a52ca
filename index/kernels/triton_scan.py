"""Violations on a GPU, fused with the search for the smallest: only the minima are stored.

The first stage scores every row and stores the smallest violation of each tile of rows. The k-th
smallest of these is an upper bound on the k-th violation, because k tiles each hold a row within
it. The second stage scores the few tiles within the bound again.

Points are stored by coordinate, (N, R): each thread adds up its own rows, and neighbouring threads
read neighbouring addresses. One query is limited by memory, many queries by the three instructions
for each pair of coordinates.

The kernels are written in Triton. Without a GPU they run in its interpreter (TRITON_INTERPRET=1,
set before this module is imported), as in the tests. Its compiler accepts only its own annotations,
so kernels have none.
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
STEP = 8  # coordinates in an unrolled loop
_PAIRS = 1 << 16  # tiles scored again at once: 16 MB of violations


class Shape(NamedTuple):
    """Rows, queries and warps of one program of a kernel."""

    rows: int  # a multiple of TILE
    queries: int
    warps: int


# The fastest shapes that were tried on an H100, by the number of queries in a batch.
SHAPES = {1: Shape(256, 1, 2), 8: Shape(128, 8, 2), 16: Shape(256, 16, 4)}
BLOCK = 256  # the number of stored rows is a multiple of it, and all shapes divide it


@jit
def _violations(  # type: ignore[no-untyped-def]
    columns, queries, rows, batch, row_stride, query_stride, dimension, orientation, total, step
):
    stored_at, query_at = columns + rows, queries + batch
    for _ in range(0, dimension, step):
        for _ in tl.static_range(step):
            stored = tl.load(stored_at).to(tl.float32)[None, :]
            query = tl.load(query_at)[:, None]
            if orientation == 2:
                total += query * stored
            else:
                if orientation == 0:
                    gap = tl.maximum(query - stored, 0.0)
                else:
                    gap = tl.maximum(stored - query, 0.0)
                total += gap * gap
            stored_at += row_stride
            query_at += query_stride
    if orientation == 2:
        total = 1.0 - total
    return total


@jit
def _mask_excluded(total, excluded, rows, row_count, masked):  # type: ignore[no-untyped-def]
    # Excluded rows, and those beyond the last one, get an infinite violation.
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
    batch_size: tl.constexpr,
    step: tl.constexpr,
):
    # Queries vary fastest, so that programs with the same rows find them in the cache.
    block = tl.program_id(1)
    block_rows: tl.constexpr = tiles * tile_rows
    rows = block.to(tl.int64) * block_rows + tl.arange(0, block_rows)
    batch = tl.program_id(0) * batch_size + tl.arange(0, batch_size)
    total = tl.zeros((batch_size, block_rows), tl.float32)
    total = _violations(
        columns, queries, rows, batch, row_stride, query_stride, dimension, orientation, total, step
    )
    total = _mask_excluded(total, excluded, rows, row_count, masked)
    values = tl.min(tl.reshape(total, (batch_size, tiles, tile_rows)), axis=2)
    at = block * tiles + tl.arange(0, tiles)
    place = batch.to(tl.int64)[:, None] * (row_stride // tile_rows) + at[None, :]
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
    batch = tl.load(pair_queries + pair) + tl.arange(0, 1)
    total = tl.zeros((1, tile_rows), tl.float32)
    total = _violations(
        columns, queries, rows, batch, row_stride, query_stride, dimension, orientation, total, step
    )
    total = _mask_excluded(total, excluded, rows, row_count, masked)
    place = pair * tile_rows + tl.arange(0, tile_rows)
    tl.store(out + place[None, :], total)


def shape_of(rows: int, dimension: int) -> tuple[int, int]:
    """Return the shape of stored points for the kernels: (N, R), each rounded up."""
    return _round_up(dimension, STEP), _round_up(rows, BLOCK)


def columns_for(rows: int, dimension: int, device: torch.device) -> Tensor:
    """Return float16 zeros of the shape `shape_of` for the coordinates of points."""
    return torch.zeros(shape_of(rows, dimension), device=device, dtype=torch.float16)


def smallest_of_tiles(
    columns: Tensor, queries: Tensor, excluded: Tensor | None, rows: int, orientation: Orientation
) -> Tensor:
    """Return each query's smallest violation in each tile: (N, R), (B, N) -> (B, R / TILE).

    `columns` is from `columns_for`, with `rows` points in it; queries are float32; excluded (rows,)
    is bool. A tile without a live row gets infinity. Sums are float32, in an order that depends on
    the device.
    """
    shape = SHAPES[next((most for most in SHAPES if len(queries) <= most), max(SHAPES))]
    batch = _transpose(queries, len(columns), shape.queries)
    out = torch.empty(batch.shape[1], columns.shape[1] // TILE, device=columns.device)
    _smallest[(batch.shape[1] // shape.queries, columns.shape[1] // shape.rows)](
        columns,
        batch,
        columns if excluded is None else excluded,
        out,
        rows,
        columns.shape[1],
        batch.shape[1],
        len(columns),
        orientation=int(orientation),
        masked=excluded is not None,
        tile_rows=TILE,
        tiles=shape.rows // TILE,
        batch_size=shape.queries,
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
    """Return the violations of all rows in pairs (P,) of a query and a tile: -> (P, TILE)."""
    batch = _transpose(queries, len(columns), 1)
    out = torch.empty(len(pair_queries), TILE, device=columns.device)
    for at in range(0, len(out), _PAIRS):
        part = slice(at, at + _PAIRS)
        _tiles[(len(out[part]),)](
            columns,
            batch,
            columns if excluded is None else excluded,
            pair_queries[part],
            pair_tiles[part],
            out[part],
            rows,
            columns.shape[1],
            batch.shape[1],
            len(columns),
            orientation=int(orientation),
            masked=excluded is not None,
            tile_rows=TILE,
            step=STEP,
            num_warps=1,
            enable_fp_fusion=True,
        )
    return out


def _transpose(queries: Tensor, dimension: int, multiple: int) -> Tensor:
    """Pad queries with zeros to the size that kernels read, and transpose them: -> (N, B)."""
    count, length = queries.shape
    padding = (0, dimension - length, 0, _round_up(count, multiple) - count)
    return pad(queries, padding).T.contiguous()


def _round_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple
