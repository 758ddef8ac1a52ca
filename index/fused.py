"""Violations on a GPU, fused with the search for the smallest: neither all pairs of query and row
nor the cube of their gaps ever exists.

Two stages. The first scores every row and keeps of each tile of rows its smallest violation: the
k-th smallest of those bounds the k-th violation from above, because k tiles hold a row each that
is no worse. The second scores only the tiles whose smallest is within the bound once more, a few
for each query, and returns their violations.

The kernels are Triton's. Where there is no GPU they run in its interpreter (TRITON_INTERPRET=1,
set before this module is imported), which is how they are tested; tile sizes were chosen by the
size of a multiprocessor's registers and have not been measured on a card.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
import triton
import triton.language as tl
from torch import Tensor

from index.terms import Form

jit = cast(Callable[[Callable[..., Any]], Any], triton.jit)

TILE = 64  # rows
_QUERIES = 8  # that meet a tile while it is in registers
_STEP = 8  # coordinates at a time
_PAIRS = 1 << 16  # tiles scored again at one time: 16 MB of violations


@jit
def _violations(
    points: Any,
    queries: Any,
    dead: Any,
    rows: Any,
    asked: Any,
    row_count: Any,
    query_count: Any,
    dimension: Any,
    form: tl.constexpr,
    masked: tl.constexpr,
    tile_rows: tl.constexpr,
    together: tl.constexpr,
    step: tl.constexpr,
) -> Any:
    # Rows that are dead, or beyond the last one, are infinitely bad.
    total = tl.zeros((together, tile_rows), tl.float32)
    stored_at = rows.to(tl.int64)[:, None] * dimension
    asked_at = asked.to(tl.int64)[:, None] * dimension
    for first in range(0, dimension, step):
        at = first + tl.arange(0, step)
        inside = (at < dimension)[None, :]
        stored = tl.load(
            points + stored_at + at[None, :], mask=(rows < row_count)[:, None] & inside, other=0.0
        ).to(tl.float32)  # (TILE, STEP)
        query = tl.load(
            queries + asked_at + at[None, :],
            mask=(asked < query_count)[:, None] & inside,
            other=0.0,
        )  # (QUERIES, STEP)
        if form == 2:
            term = query[:, None, :] * stored[None, :, :]
        else:
            if form == 0:
                gap = tl.maximum(query[:, None, :] - stored[None, :, :], 0.0)
            else:
                gap = tl.maximum(stored[None, :, :] - query[:, None, :], 0.0)
            term = gap * gap
        total += tl.sum(term, axis=2)
    if form == 2:
        total = 1.0 - total
    alive = rows < row_count
    if masked:
        alive = alive & (tl.load(dead + rows, mask=alive, other=1) == 0)
    return tl.where(alive[None, :], total, float("inf"))


@jit
def _smallest(
    points: Any,
    queries: Any,
    dead: Any,
    out: Any,
    row_count: Any,
    query_count: Any,
    dimension: Any,
    form: tl.constexpr,
    masked: tl.constexpr,
    tile_rows: tl.constexpr,
    together: tl.constexpr,
    step: tl.constexpr,
) -> None:
    # Queries vary fastest, so that the programs that want a tile find it in the cache.
    tile = tl.program_id(1)
    rows = tile * tile_rows + tl.arange(0, tile_rows)
    asked = tl.program_id(0) * together + tl.arange(0, together)
    values = _violations(
        points,
        queries,
        dead,
        rows,
        asked,
        row_count,
        query_count,
        dimension,
        form,
        masked,
        tile_rows,
        together,
        step,
    )
    place = asked.to(tl.int64) * tl.num_programs(1) + tile
    tl.store(out + place, tl.min(values, axis=1), mask=asked < query_count)


@jit
def _tiles(
    points: Any,
    queries: Any,
    dead: Any,
    pair_queries: Any,
    pair_tiles: Any,
    out: Any,
    row_count: Any,
    query_count: Any,
    dimension: Any,
    form: tl.constexpr,
    masked: tl.constexpr,
    tile_rows: tl.constexpr,
    step: tl.constexpr,
) -> None:
    pair = tl.program_id(0)
    rows = tl.load(pair_tiles + pair) * tile_rows + tl.arange(0, tile_rows)
    asked = tl.load(pair_queries + pair) + tl.arange(0, 1)
    values = _violations(
        points,
        queries,
        dead,
        rows,
        asked,
        row_count,
        query_count,
        dimension,
        form,
        masked,
        tile_rows,
        1,
        step,
    )
    place = pair.to(tl.int64) * tile_rows + tl.arange(0, tile_rows)
    tl.store(out + place[None, :], values)


def smallest_of_tiles(points: Tensor, queries: Tensor, dead: Tensor | None, form: Form) -> Tensor:
    """Return each query's smallest violation in each tile: (R, N), (B, N) -> (B, R / TILE).

    points are float16 or float32, queries float32; dead (R,) is of bool. A tile without a live
    row has infinity. Sums are float32, in an order of the device's own.
    """
    tiles = triton.cdiv(len(points), TILE)
    out = torch.empty(len(queries), tiles, device=points.device)
    _smallest[(triton.cdiv(len(queries), _QUERIES), tiles)](
        points,
        queries,
        points if dead is None else dead,
        out,
        len(points),
        *queries.shape,
        form=int(form),
        masked=dead is not None,
        tile_rows=TILE,
        together=_QUERIES,
        step=_STEP,
    )
    return out


def violations_of_tiles(
    points: Tensor,
    queries: Tensor,
    dead: Tensor | None,
    form: Form,
    pair_queries: Tensor,
    pair_tiles: Tensor,
) -> Tensor:
    """Return the violations of all rows of pairs (P,) of a query and a tile: -> (P, TILE)."""
    out = torch.empty(len(pair_queries), TILE, device=points.device)
    for at in range(0, len(out), _PAIRS):
        part = slice(at, at + _PAIRS)
        _tiles[(len(out[part]),)](
            points,
            queries,
            points if dead is None else dead,
            pair_queries[part],
            pair_tiles[part],
            out[part],
            len(points),
            *queries.shape,
            form=int(form),
            masked=dead is not None,
            tile_rows=TILE,
            step=_STEP,
        )
    return out
