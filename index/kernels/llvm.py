"""What kernels are emitted from, where numba has no words: vectors, and LLVM's own functions.

`numba.extending.intrinsic` types an operation; its code is put together from these.

Numba keeps machine code until the file of the kernel itself is changed: after a change here, remove
`__pycache__`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils as _cgutils

cgutils: Any = _cgutils

LINE = 16  # floats of a cache line
INT = ir.IntType(64)
FLOAT = ir.FloatType()
FLOATS = ir.VectorType(FLOAT, LINE)

_LANE = ir.IntType(32)


def const(value: int) -> Any:
    """Return a number that counts or addresses."""
    return ir.Constant(INT, value)


def filled(kind: Any, value: int) -> Any:
    """Return a vector that holds one number everywhere."""
    return ir.Constant(kind, [value] * kind.count)


def anything(kind: Any) -> Any:
    """Return a vector of which nothing is said."""
    return ir.Constant(kind, ir.Undefined)


def lane(at: int) -> Any:
    """Return the place of a number in a vector."""
    return ir.Constant(_LANE, at)


def lanes(places: Sequence[int]) -> Any:
    """Return the places that a vector is made of, for `shuffle_vector`."""
    return ir.Constant(ir.VectorType(_LANE, len(places)), list(places))


def arrays(
    context: Any, builder: Any, signature: Any, args: Any, places: Sequence[int]
) -> list[Any]:
    """Return those arguments of an operation that are arrays, with their `data` and `shape`."""
    return [context.make_array(signature.args[at])(context, builder, args[at]) for at in places]


def row(builder: Any, array: Any, at: Any, length: Any) -> Any:
    """Emit the address of a row of an array (R, length)."""
    return builder.gep(array.data, [builder.mul(at, length)])


def load(builder: Any, kind: Any, pointer: Any, at: Any) -> Any:
    """Emit the vector that begins `at` numbers behind a pointer, wherever that is."""
    return builder.load(_place(builder, kind, pointer, at), align=_alignment(kind))


def store(builder: Any, vector: Any, pointer: Any, at: Any) -> None:
    """Put a vector where `load` reads it."""
    kind = vector.type
    builder.store(vector, _place(builder, kind, pointer, at), align=_alignment(kind))


def _place(builder: Any, kind: Any, pointer: Any, at: Any) -> Any:
    return builder.bitcast(builder.gep(pointer, [at]), kind.as_pointer())


def _alignment(kind: Any) -> int:
    """Return the bytes of one number: a vector lies as its numbers do."""
    return 4 if kind.element == FLOAT else kind.element.width // 8


def call(builder: Any, name: str, result: Any, *operands: Any) -> Any:
    """Emit a call of one of LLVM's own functions."""
    signature = ir.FunctionType(result, [operand.type for operand in operands])
    function = cgutils.get_or_insert_function(builder.module, signature, name)
    return builder.call(function, operands)


def total(builder: Any, parts: Sequence[Any]) -> Any:
    """Emit the sum of all numbers of four vectors of floats, by a fixed tree."""
    vector = builder.fadd(builder.fadd(*parts[:2]), builder.fadd(*parts[2:]))
    half = vector.type.count // 2
    while half:
        upper, lower = (
            builder.shuffle_vector(vector, anything(vector.type), lanes(places))
            for places in (range(half, 2 * half), range(half))
        )
        vector = builder.fadd(lower, upper)
        half //= 2
    return builder.extract_element(vector, lane(0))


def prefetch(builder: Any, pointer: Any) -> None:
    """Emit a hint that the cache line at `pointer` will be read; any address is allowed."""
    signature = ir.FunctionType(ir.VoidType(), [pointer.type, _LANE, _LANE, _LANE])
    hint = builder.module.declare_intrinsic("llvm.prefetch", [pointer.type], signature)
    # To be read, worth keeping in the second-level cache, data.
    builder.call(hint, [pointer, *(ir.Constant(_LANE, value) for value in (0, 2, 1))])
