"""Vectors and functions of LLVM, which numba cannot express, as LLVM IR.

`numba.extending.intrinsic` types an operation; these functions emit its code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils as _cgutils

cgutils: Any = _cgutils

INT = ir.IntType(64)

_LANE = ir.IntType(32)


def const(value: int) -> Any:
    """Return an integer constant, for counts and addresses."""
    return ir.Constant(INT, value)


def filled(kind: Any, value: int) -> Any:
    """Return a constant vector in which every element is `value`."""
    return ir.Constant(kind, [value] * kind.count)


def anything(kind: Any) -> Any:
    """Return a vector whose contents do not matter."""
    return ir.Constant(kind, ir.Undefined)


def lane(at: int) -> Any:
    """Return the constant index of an element of a vector."""
    return ir.Constant(_LANE, at)


def lanes(places: Sequence[int]) -> Any:
    """Return the constant indices for `shuffle_vector`."""
    return ir.Constant(ir.VectorType(_LANE, len(places)), list(places))


def arrays(
    context: Any, builder: Any, signature: Any, args: Any, places: Sequence[int]
) -> list[Any]:
    """Return the arguments of an operation at `places` as arrays with `data` and `shape`."""
    return [context.make_array(signature.args[at])(context, builder, args[at]) for at in places]


def row(builder: Any, array: Any, at: Any, length: Any) -> Any:
    """Emit the address of a row of an array (R, length)."""
    return builder.gep(array.data, [builder.mul(at, length)])


def load(builder: Any, kind: Any, pointer: Any, at: Any) -> Any:
    """Emit the load of the vector `at` elements after a pointer, which need not be aligned."""
    return builder.load(_place(builder, kind, pointer, at), align=kind.element.width // 8)


def store(builder: Any, vector: Any, pointer: Any, at: Any) -> None:
    """Emit the store of a vector `at` elements after a pointer, which need not be aligned."""
    kind = vector.type
    builder.store(vector, _place(builder, kind, pointer, at), align=kind.element.width // 8)


def _place(builder: Any, kind: Any, pointer: Any, at: Any) -> Any:
    return builder.bitcast(builder.gep(pointer, [at]), kind.as_pointer())


def call(builder: Any, name: str, result: Any, *operands: Any) -> Any:
    """Emit a call of a function of LLVM."""
    signature = ir.FunctionType(result, [operand.type for operand in operands])
    function = cgutils.get_or_insert_function(builder.module, signature, name)
    return builder.call(function, operands)


def prefetch(builder: Any, pointer: Any) -> None:
    """Emit a hint that the cache line at `pointer` will be read; any address is allowed."""
    signature = ir.FunctionType(ir.VoidType(), [pointer.type, _LANE, _LANE, _LANE])
    hint = builder.module.declare_intrinsic("llvm.prefetch", [pointer.type], signature)
    # 0: for reading; 2: into the second-level cache; 1: data, not instructions.
    builder.call(hint, [pointer, *(ir.Constant(_LANE, value) for value in (0, 2, 1))])
