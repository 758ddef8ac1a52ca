"""A hint to the processor that a row of points will be read, which numba cannot express.

A processor cannot predict which rows are candidates. `python -m benchmarks.search.kernels` measures
the hint: scoring candidates takes 1.1 to 1.2 times as long without it.
"""

from __future__ import annotations

from typing import Any

from numba import types as _types
from numba.extending import intrinsic

from hasse.index.kernels import llvm

types: Any = _types


def _typed(_context: Any, points: Any, row: Any, at: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        (array,) = llvm.arrays(context, builder, signature, args, (0,))
        start = llvm.row(builder, array, args[1], builder.extract_value(array.shape, 1))
        llvm.prefetch(builder, builder.gep(start, [args[2]]))
        return context.get_dummy_value()

    return types.void(points, types.int64, types.int64), generate


# prefetch(points (R, N), row, at): fetch the cache line of coordinate `at`; any row is allowed.
prefetch: Any = intrinsic(_typed)
