"""The recurrence of `hasse.lab.encoders.gru` for inference on a CPU, with packed weights.

A step multiplies the states of all captions with a t-th word by the recurrent weights. A library's
product packs the weights anew for each step, and computes the gates in separate passes. Here they
are packed once: the weights of all three gates of a panel of coordinates are together, in the order
of reading, so sums stay in registers until they are new states. The input term of each word's gates
is a row of a table, computed beforehand.

Every sum runs over the coordinates in order, for any batch and any number of rows at a time. So the
bits of a caption's states depend neither on the other captions nor on the processor. Weights that
float16 holds exactly are read as float16: half as many bytes, and the same bits in the result.

Numba cannot express this, so its operations are emitted as LLVM IR: 197 us a caption where plain
numba takes 520 (one thread of a Zen 5). The emitters stay in this file, because numba keeps machine
code on disk until the file of the kernel changes.

Imported only where captions are encoded on a CPU, since it needs numba.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import config as _config
from numba import types as _types
from numba.core import cgutils as _cgutils
from numba.core import codegen as _codegen
from numba.extending import intrinsic
from numpy.typing import NDArray

from hasse.models.kernels.compiled import compiled

cgutils: Any = _cgutils
codegen: Any = _codegen
config: Any = _config
types: Any = _types

Floats: TypeAlias = NDArray[np.float32]


def _processor_features() -> frozenset[str]:
    features = config.CPU_FEATURES
    if features is None:
        features = "" if config.CPU_NAME else codegen.get_host_cpu_features()
    return frozenset(name[1:] for name in features.split(",") if name.startswith("+"))


_FEATURES = _processor_features()
_WIDE = "avx512f" in _FEATURES  # 32 registers of 16 floats, and not 16 of 8
READS_HALVES = bool({"f16c", "neon"} & _FEATURES)

# Sums stay in registers: three gates of this many coordinates and rows at a time.
WIDTH = 16 if _WIDE else 8
_ROWS = 8 if _WIDE else 4
_PANELS = 4  # at a time, where there are few rows

_FLOAT, _HALF, _INT, _INT32 = ir.FloatType(), ir.HalfType(), ir.IntType(64), ir.IntType(32)
_VECTOR, _NUMBERS = ir.VectorType(_FLOAT, WIDTH), ir.VectorType(_INT32, WIDTH)


def pack(
    weight: Floats, *, halves: bool = READS_HALVES
) -> NDArray[np.float32] | NDArray[np.uint16]:
    """Lay out recurrent weights (3 N, N) for `run`: (panels, N, 3, WIDTH).

    With `halves`, they are the bits of float16 if it holds all weights exactly.
    """
    size = weight.shape[1]
    padded = pad_coordinates(weight.reshape(3, size, size).transpose(2, 0, 1))  # (N, 3, N')
    panels = padded.reshape(size, 3, -1, WIDTH).transpose(2, 0, 1, 3)
    with np.errstate(over="ignore"):
        halved = panels.astype(np.float16)
    if halves and np.array_equal(halved, panels):
        return np.ascontiguousarray(halved).view(np.uint16)
    return np.ascontiguousarray(panels)


def pad_coordinates(numbers: Floats) -> Floats:
    """Pad numbers (..., N) with zeros to the kernel's number of coordinates, (..., N')."""
    size = numbers.shape[-1]
    padded = np.zeros((*numbers.shape[:-1], _padded_size(size)), np.float32)
    padded[..., :size] = numbers
    return padded


def _padded_size(size: int) -> int:
    return -(-size // (WIDTH * _PANELS)) * WIDTH * _PANELS


def _const(value: int) -> Any:
    """Return a constant integer for counting and addressing."""
    return ir.Constant(_INT, value)


def _all(value: float) -> Any:
    """Return a constant vector of one repeated number."""
    return ir.Constant(_VECTOR, [value] * WIDTH)


def _load(builder: Any, pointer: Any, kind: Any = _VECTOR) -> Any:
    """Emit the load of a vector at a pointer, aligned to its numbers."""
    align = 2 if kind.element == _HALF else 4
    return builder.load(builder.bitcast(pointer, kind.as_pointer()), align=align)


def _store(builder: Any, vector: Any, pointer: Any) -> None:
    builder.store(vector, builder.bitcast(pointer, _VECTOR.as_pointer()), align=4)


def _spread(builder: Any, number: Any) -> Any:
    """Emit a vector of one repeated number, computed at run time."""
    blank = ir.Constant(_VECTOR, ir.Undefined)
    first = builder.insert_element(blank, number, ir.Constant(_INT32, 0))
    return builder.shuffle_vector(first, first, ir.Constant(_NUMBERS, [0] * WIDTH))


def _call(builder: Any, name: str, *arguments: Any) -> Any:
    """Emit a call of an LLVM intrinsic of vectors: "fma", "fabs"."""
    signature = ir.FunctionType(_VECTOR, [_VECTOR] * len(arguments))
    function = cgutils.get_or_insert_function(builder.module, signature, f"llvm.{name}.v{WIDTH}f32")
    return builder.call(function, arguments)


def _expm1(builder: Any, x: Any) -> Any:
    """Emit e^x - 1, exact near zero: x = n ln 2 + r, and e^r - 1 by its series to the 7th power.

    NaN stays NaN.
    """
    for sign, limit in ((">", 87.0), ("<", -87.0)):
        x = builder.select(builder.fcmp_ordered(sign, x, _all(limit)), _all(limit), x)
    # Floats of this size are whole numbers, so n + 127 is in their last bits.
    whole = _all(1.5 * 2**23 + 127)
    shifted = _call(builder, "fma", x, _all(1 / math.log(2)), whole)
    n = builder.fsub(shifted, whole)
    high = round(math.log(2) * 512) / 512  # few enough digits for an exact product with n
    r = _call(builder, "fma", n, _all(-high), x)
    r = _call(builder, "fma", n, _all(high - math.log(2)), r)
    series = _all(1 / math.factorial(7))
    for power in range(6, 0, -1):
        series = _call(builder, "fma", series, r, _all(1 / math.factorial(power)))
    exponent = builder.shl(builder.bitcast(shifted, _NUMBERS), ir.Constant(_NUMBERS, [23] * WIDTH))
    scale = builder.bitcast(exponent, _VECTOR)
    less = builder.fsub(scale, _all(1.0))
    return _call(builder, "fma", scale, builder.fmul(series, r), less)


def _sigmoid(builder: Any, x: Any) -> Any:
    return builder.fdiv(_all(1.0), builder.fadd(_expm1(builder, builder.fneg(x)), _all(2.0)))


def _tanh(builder: Any, x: Any) -> Any:
    above = _expm1(builder, builder.fadd(x, x))
    return builder.fdiv(above, builder.fadd(above, _all(2.0)))


def _tile(rows: int, panels: int) -> Any:
    """Return the operation that computes new states of some rows and panels of coordinates."""

    def typed(
        _context: Any,
        row: Any,
        word: Any,
        panel: Any,
        inner: Any,
        words: Any,
        table: Any,
        weights: Any,
        bias: Any,
        before: Any,
        after: Any,
        out: Any,
        max_pool: Any,
        signed: Any,
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            arrays = [
                context.make_array(kind)(context, builder, value)
                for kind, value in zip(signature.args[4:11], args[4:11], strict=True)
            ]
            _emit(builder, rows, panels, arrays, args[:4], args[11:])
            return context.get_dummy_value()

        kinds = (words, table, weights, bias, before, after, out)
        return types.void(*[types.int64] * 4, *kinds, max_pool, signed), generate

    return intrinsic(typed)


def _emit(
    builder: Any,
    rows: int,
    panels: int,
    arrays: list[Any],
    indices: Sequence[Any],
    flags: Sequence[Any],
) -> None:
    words, table, weights, bias, before, after, out = arrays
    row, word, panel, inner = indices
    size = builder.extract_value(before.shape, 1)  # as padded
    depth = builder.extract_value(weights.shape, 1)
    column = builder.mul(panel, _const(WIDTH))
    starts = [builder.mul(builder.add(row, _const(i)), size) for i in range(rows)]
    states = [builder.gep(before.data, [start]) for start in starts]
    panel_size = builder.mul(depth, _const(3 * WIDTH))
    half = weights.data.type.pointee != _FLOAT
    packed = builder.bitcast(weights.data, _HALF.as_pointer()) if half else weights.data
    first = builder.gep(packed, [builder.mul(panel, panel_size)])
    vector_type = ir.VectorType(packed.type.pointee, WIDTH)

    zero = _all(0.0)
    sums = [
        [[cgutils.alloca_once(builder, _VECTOR) for _ in range(3)] for _ in range(panels)]
        for _ in range(rows)
    ]
    for total in (total for row_sums in sums for panel_sums in row_sums for total in panel_sums):
        builder.store(zero, total)  # the alloca runs once, the tile many times
    with cgutils.for_range_slice(builder, _const(0), inner, _const(1), _INT) as (k, _):
        line = builder.gep(first, [builder.mul(k, _const(3 * WIDTH))])
        columns = []
        for p in range(panels):
            start = builder.gep(line, [builder.mul(panel_size, _const(p))])
            for gate in range(3):
                pointer = builder.gep(start, [_const(gate * WIDTH)])
                stored = _load(builder, pointer, vector_type)
                columns.append(builder.fpext(stored, _VECTOR) if half else stored)
        for i in range(rows):
            state = _spread(builder, builder.load(builder.gep(states[i], [k])))
            for at, weight in enumerate(columns):
                total = sums[i][at // 3][at % 3]
                builder.store(_call(builder, "fma", state, weight, builder.load(total)), total)
    max_pool, signed = (
        builder.icmp_unsigned("!=", flag, ir.Constant(flag.type, 0)) for flag in flags
    )
    for i in range(rows):
        number = builder.load(builder.gep(words.data, [builder.add(word, _const(i))]))
        input_gates = builder.gep(table.data, [builder.mul(number, builder.mul(size, _const(3)))])
        for p in range(panels):
            at = builder.add(column, _const(p * WIDTH))
            pointer = builder.add(starts[i], at)
            input_r, input_z, input_n = (
                _load(builder, builder.gep(input_gates, [builder.add(at, gate)]))
                for gate in (builder.mul(size, _const(g)) for g in range(3))
            )
            sum_r, sum_z, sum_n = (builder.load(total) for total in sums[i][p])
            r = _sigmoid(builder, builder.fadd(input_r, sum_r))
            z = _sigmoid(builder, builder.fadd(input_z, sum_z))
            recurrent_n = builder.fadd(sum_n, _load(builder, builder.gep(bias.data, [at])))
            n = _tanh(builder, _call(builder, "fma", r, recurrent_n, input_n))
            old = _load(builder, builder.gep(before.data, [pointer]))
            new = _call(builder, "fma", z, builder.fsub(old, n), n)
            _store(builder, new, builder.gep(after.data, [pointer]))
            value = builder.select(signed, new, _call(builder, "fabs", new))
            pooled = builder.gep(out.data, [pointer])
            maximum = _load(builder, pooled)
            # NaN counts as the largest, so that it is noticed.
            largest = builder.select(builder.fcmp_unordered(">", value, maximum), value, maximum)
            _store(builder, builder.select(max_pool, largest, value), pooled)


_full_tile, _tile_of_4, _tile_of_2, _tile_of_1 = (
    _tile(_ROWS, 1),
    _tile(4, 2),
    _tile(2, _PANELS),
    _tile(1, _PANELS),
)


@compiled()
def run(
    words: NDArray[np.int64],
    alive: NDArray[np.int64],
    table: Floats,
    weights: NDArray[Any],
    bias: Floats,
    states: Floats,
    out: Floats,
    max_pool: bool,
    signed: bool,
) -> None:
    """Read captions, the longest first, and write the pooled states of each to `out`.

    Args:
        words: (sum of lengths,), numbers of the first words, then of the second ones, and so on.
        alive: (T,), how many captions have a t-th word; never grows.
        table: (V, 3, N'), the input terms of each word's gates, with all biases except `bias`.
        weights: the result of `pack`.
        bias: (N',), of the recurrent term of the new state.
        states: (2, B, N') zeros, working memory.
        out: (B, N'), filled with a lower bound of all states.
        max_pool: keep the largest of all states in each coordinate, not the last state.
        signed: keep states as they are, not their absolute values.
    """
    start = 0
    for step in range(alive.shape[0]):
        count = alive[step]
        before, after = states[step % 2], states[1 - step % 2]
        arguments = (words, table, weights, bias, before, after, out, max_pool, signed)
        inner = weights.shape[1] if step else 0  # the first state is zero
        for panel in range(0, weights.shape[0], _PANELS):
            row = 0
            while row + _ROWS <= count:
                for p in range(panel, panel + _PANELS):
                    _full_tile(row, start + row, p, inner, *arguments)
                row += _ROWS
            if row + 4 <= count:
                for p in range(panel, panel + _PANELS, 2):
                    _tile_of_4(row, start + row, p, inner, *arguments)
                row += 4
            if row + 2 <= count:
                _tile_of_2(row, start + row, panel, inner, *arguments)
                row += 2
            if row < count:
                _tile_of_1(row, start + row, panel, inner, *arguments)
        start += count
