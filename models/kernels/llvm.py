"""What kernels for a CPU are emitted from, where numba has no words: vectors, and LLVM's functions.

`numba.extending.intrinsic` types an operation; its code is put together from these. Of numba, so
this module is imported by kernels only. `index/kernels/llvm.py` is the like for kernels that
search, since neither package knows the other.

Numba keeps machine code until the file of the kernel itself is changed: after a change here, remove
`__pycache__`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import numba
from llvmlite import ir  # type: ignore[import-untyped]
from numba import config as _config
from numba.core import cgutils as _cgutils
from numba.core import codegen as _codegen

cgutils: Any = _cgutils
codegen: Any = _codegen
config: Any = _config

FLOAT, INT, INT32 = ir.FloatType(), ir.IntType(64), ir.IntType(32)

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile on first use, without the GIL; keep the machine code on disk where possible."""
    try:
        return cast(F, numba.njit(nogil=True, cache=True)(function))
    except RuntimeError:  # numba found no folder it may write to: a read-only installation
        return cast(F, numba.njit(nogil=True)(function))


def _features() -> frozenset[str]:
    given = config.CPU_FEATURES
    if given is None:
        given = "" if config.CPU_NAME else codegen.get_host_cpu_features()
    return frozenset(name[1:] for name in given.split(",") if name.startswith("+"))


FEATURES = _features()  # of the processor that is compiled for
WIDE = "avx512f" in FEATURES  # 32 registers of 16 floats, and not 16 of 8


def const(value: int) -> Any:
    """Return a number that counts or addresses."""
    return ir.Constant(INT, value)


def filled(kind: Any, value: float) -> Any:
    """Return a vector that holds one number everywhere."""
    return ir.Constant(kind, [value] * kind.count)


def arrays(context: Any, builder: Any, signature: Any, args: Any, places: slice) -> list[Any]:
    """Return those arguments of an operation that are arrays, with their `data` and `shape`."""
    return [
        context.make_array(kind)(context, builder, value)
        for kind, value in zip(signature.args[places], args[places], strict=True)
    ]


def load(builder: Any, kind: Any, pointer: Any) -> Any:
    """Emit the vector at a pointer, which lies as its numbers do."""
    align = 2 if kind.element == ir.HalfType() else 4
    return builder.load(builder.bitcast(pointer, kind.as_pointer()), align=align)


def store(builder: Any, vector: Any, pointer: Any) -> None:
    """Put a vector of floats where `load` reads it."""
    builder.store(vector, builder.bitcast(pointer, vector.type.as_pointer()), align=4)


def spread(builder: Any, kind: Any, number: Any) -> Any:
    """Emit a vector that holds one number everywhere."""
    blank = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(blank, number, ir.Constant(INT32, 0))
    return shuffled(builder, first, [0] * kind.count)


def shuffled(builder: Any, vector: Any, places: Sequence[int]) -> Any:
    """Emit the vector of what another has at some places."""
    chosen = ir.Constant(ir.VectorType(INT32, len(places)), list(places))
    return builder.shuffle_vector(vector, vector, chosen)


def call(builder: Any, name: str, *given: Any) -> Any:
    """Emit a call of one of LLVM's own functions of vectors of floats: "fma", "fabs"."""
    kind = given[0].type
    signature = ir.FunctionType(kind, [kind] * len(given))
    name = f"llvm.{name}.v{kind.count}f32"
    return builder.call(cgutils.get_or_insert_function(builder.module, signature, name), given)
