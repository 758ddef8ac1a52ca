"""Compilation for a GPU; what the kernels compute is tested in test_gpu_scan."""

from __future__ import annotations

import pytest

from hasse.index.kernels.triton_scan import SHAPES, STEP, TILE
from hasse.index.types import Orientation
from tests.compilation import Signature, compiled

READ: Signature = {"columns": "*fp16", "queries": "*fp32", "excluded": "*i1", "out": "*fp32"}
COUNTS: Signature = dict.fromkeys(("row_count", "row_stride", "query_stride", "dimension"), "i32")


@pytest.mark.slow
@pytest.mark.parametrize("orientation", Orientation)
def test_triton_kernels_compile_for_a_gpu(orientation: Orientation) -> None:
    fixed: Signature = {
        "orientation": int(orientation),
        "masked": True,
        "tile_rows": TILE,
        "step": STEP,
    }
    shape = SHAPES[max(SHAPES)]
    kernels: dict[str, Signature] = {
        "_smallest": {
            **READ,
            **COUNTS,
            **fixed,
            "tiles": shape.rows // TILE,
            "batch_size": shape.queries,
        },
        "_tiles": {**READ, **COUNTS, **fixed, "pair_queries": "*i64", "pair_tiles": "*i64"},
    }
    assert compiled("hasse.index.kernels.triton_scan", kernels) == list(kernels)
