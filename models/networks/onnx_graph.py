"""Writes a network in ONNX's format: operators, their attributes and float32 or int64 constants.

ONNX is a schema of protocol buffers (onnx.proto of its repository), of which this is the small part
that a convolutional network needs. The package `onnx` would take 36 MB and 0.2 s to import.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

IR_VERSION, OPSET = 8, 17
_FLOAT, _INT64 = 1, 7  # TensorProto.DataType
_DATA_TYPES = {np.dtype(np.float32): _FLOAT, np.dtype(np.int64): _INT64}
_INT, _STRING, _INTS = 2, 3, 7  # AttributeProto.AttributeType

Attribute = int | str | Sequence[int]


class OnnxGraph:
    """A graph to which operators are added in the order of their computation."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._nodes: list[bytes] = []
        self._constants: list[bytes] = []

    def constant(self, array: NDArray[np.generic]) -> str:
        """Add a constant and return its name."""
        name = f"constant{len(self._constants)}"
        shape = (_integer(1, side) for side in array.shape)
        data_type = _integer(2, _DATA_TYPES[array.dtype])
        little_endian = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
        self._constants.append(
            b"".join((*shape, data_type, _message(8, name.encode()), _message(9, little_endian)))
        )
        return name

    def add(self, operator: str, *inputs: str, output: str = "", **attributes: Attribute) -> str:
        """Add an operator on named inputs, and return the name of its output."""
        output = output or f"{operator}{len(self._nodes)}"
        self._nodes.append(
            b"".join(
                (
                    *(_message(1, name.encode()) for name in inputs),
                    _message(2, output.encode()),
                    _message(4, operator.encode()),
                    *(_message(5, _attribute(*item)) for item in attributes.items()),
                )
            )
        )
        return output

    def to_bytes(
        self,
        inputs: Mapping[str, Sequence[int | str]],
        outputs: Mapping[str, Sequence[int | str]],
    ) -> bytes:
        """Return the content of a file; inputs and outputs are float32 of sizes or their names."""
        graph = b"".join(
            (
                *(_message(1, node) for node in self._nodes),
                _message(2, self._name.encode()),
                *(_message(5, constant) for constant in self._constants),
                *(_message(11, _tensor(*item)) for item in inputs.items()),
                *(_message(12, _tensor(*item)) for item in outputs.items()),
            )
        )
        opset = _message(1, b"") + _integer(2, OPSET)  # of the domain of ONNX itself
        return _integer(1, IR_VERSION) + _message(7, graph) + _message(8, opset)


def _attribute(name: str, value: Attribute) -> bytes:
    if isinstance(value, int):
        content, kind = _integer(3, value), _INT
    elif isinstance(value, str):
        content, kind = _message(4, value.encode()), _STRING
    else:
        content, kind = b"".join(_integer(8, number) for number in value), _INTS
    return _message(1, name.encode()) + content + _integer(20, kind)


def _tensor(name: str, shape: Sequence[int | str]) -> bytes:
    sides = (
        _integer(1, side) if isinstance(side, int) else _message(2, side.encode()) for side in shape
    )
    dimensions = b"".join(_message(1, side) for side in sides)
    tensor_type = _integer(1, _FLOAT) + _message(2, dimensions)
    return _message(1, name.encode()) + _message(2, _message(1, tensor_type))


def _integer(field: int, value: int) -> bytes:
    """Encode a field of an integer that is not negative."""
    return _varint(field << 3) + _varint(value)


def _message(field: int, content: bytes) -> bytes:
    """Encode a field of bytes: a string or a nested message."""
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
