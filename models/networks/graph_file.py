"""The file of an ONNX graph: the types of its inputs, and its weights in files beside it.

A graph of more than 2 GB has its weights in other files. They are found, and gathered into one
file, by reading the fields of the graph's protocol buffers that lead to them.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np

from hasse.models.files import publish_file
from hasse.models.networks.network import NetworkError

SUFFIX = ".data"  # of the file with the gathered weights, after the graph's whole name
_ALIGNMENT = 4096  # bytes, so that weights can be mapped into memory
_EXTERNAL_DATA, _KEY, _VALUE = 13, 1, 2
_GRAPH, _INPUT, _NAME, _TYPE, _TENSOR_TYPE, _ELEMENT = 7, 11, 1, 2, 1, 1
# numpy's names of the types of elements, in onnx.proto3's order.
_TYPES = ("", "float32", "uint8", "int8", "uint16", "int16", "int32", "int64")
# Fields of messages in onnx.proto3 that lead to tensors, by their numbers.
_MODEL = "model"
_FIELDS = {
    _MODEL: {7: "graph", 25: "function"},
    "function": {7: "node"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {},
}


class Location(NamedTuple):
    """A tensor's bytes in a file; a length of None reaches to the file's end."""

    file: str
    offset: int = 0
    length: int | None = None


class _Field(NamedTuple):
    number: int
    whole: memoryview
    content: memoryview


def external_files(graph: Path) -> list[str]:
    """Return the names of the files with weights of a graph, each once, in order.

    Raises:
        NetworkError: the file is not an ONNX graph, or a name leads out of its folder.
    """
    with _opened(graph) as message:
        names = dict.fromkeys(each.file for each in _locations(message, _MODEL))
    for name in names:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or not path.name:
            raise NetworkError(
                f"{graph} reads weights outside its folder, from {name}: take a graph from a "
                f"source that you trust"
            )
    return list(names)


def input_types(graph: Path) -> Mapping[str, str]:
    """Return numpy's names of the types of a graph's inputs, by their names; "" for others.

    Raises:
        NetworkError: the file is not an ONNX graph.
    """
    types = {}
    with _opened(graph) as message:
        for content in _inner(message, _GRAPH, _INPUT):
            name = b"".join(map(bytes, _inner(content, _NAME))).decode()
            numbers = [_varint(at, 0)[0] for at in _inner(content, _TYPE, _TENSOR_TYPE, _ELEMENT)]
            number = numbers[0] if numbers else 0
            types[name] = _TYPES[number] if number < len(_TYPES) else ""
    return types


def copy_graph(graph: Path, target: Path) -> list[Path]:
    """Copy a graph, and its weights in other files into one file beside it; return the new files.

    Raises:
        NetworkError: a file of weights is missing.
    """
    names = external_files(graph)
    missing = [name for name in names if not (graph.parent / name).is_file()]
    if missing:
        raise NetworkError(
            f"{graph} has its weights in {missing[0]}, which is not in {graph.parent}: download "
            f"that file too"
        )
    partial = target.with_name(f"{target.name}.partial")
    if not names:
        shutil.copyfile(graph, partial)
        publish_file(partial, target)
        return [target]
    data = target.with_name(target.name + SUFFIX)
    starts, sizes = _gather([graph.parent / name for name in names], data)
    places = dict(zip(names, zip(starts, sizes, strict=True), strict=True))

    def move(old: Location) -> Location:
        start, size = places[old.file]
        length = size - old.offset if old.length is None else old.length
        return Location(data.name, start + old.offset, length)

    partial.write_bytes(_moved(memoryview(graph.read_bytes()), _MODEL, move))
    publish_file(partial, target)
    return [data, target]


@contextmanager
def _opened(graph: Path) -> Iterator[memoryview]:
    """Map a file into memory; raise NetworkError if the caller finds no graph in it."""
    try:
        yield np.memmap(graph, np.uint8, "r").data
    except (ValueError, IndexError, KeyError) as error:
        raise NetworkError(f"{graph} is not an ONNX graph: download it again") from error


def _inner(message: memoryview, number: int, *numbers: int) -> Iterator[memoryview]:
    """Yield the contents of the fields of a number, and of those of further numbers in them."""
    for field in _fields(message):
        if field.number == number:
            if numbers:
                yield from _inner(field.content, *numbers)
            else:
                yield field.content


def _gather(files: list[Path], target: Path) -> tuple[list[int], list[int]]:
    """Write files one after another; return where each begins, and its size."""
    partial = target.with_name(f"{target.name}.partial")
    starts, sizes = [], []
    with partial.open("wb") as gathered:
        for file in files:
            gathered.write(bytes(-gathered.tell() % _ALIGNMENT))
            starts.append(gathered.tell())
            with file.open("rb") as source:
                shutil.copyfileobj(source, gathered, 1 << 20)
            sizes.append(gathered.tell() - starts[-1])
    publish_file(partial, target)
    return starts, sizes


def _locations(message: memoryview, kind: str) -> Iterator[Location]:
    """Yield where the external tensors of a message are."""
    entries = []
    for field in _fields(message):
        if kind == "tensor" and field.number == _EXTERNAL_DATA:
            entries.append(field.content)
        elif (inner := _FIELDS[kind].get(field.number)) is not None:
            yield from _locations(field.content, inner)
    if entries:
        yield _location(entries)


def _moved(message: memoryview, kind: str, move: Callable[[Location], Location]) -> bytes:
    """Return a message whose external tensors are elsewhere."""
    parts: list[bytes | memoryview] = []
    entries = []
    for field in _fields(message):
        if kind == "tensor" and field.number == _EXTERNAL_DATA:
            entries.append(field.content)
        elif (inner := _FIELDS[kind].get(field.number)) is None:
            parts.append(field.whole)
        else:
            parts.append(_field(field.number, _moved(field.content, inner, move)))
    if entries:
        place = move(_location(entries))
        for key, value in zip(("location", "offset", "length"), place, strict=True):
            pair = _field(_KEY, key.encode()) + _field(_VALUE, str(value).encode())
            parts.append(_field(_EXTERNAL_DATA, pair))
    return b"".join(parts)


def _location(entries: list[memoryview]) -> Location:
    pairs = {}
    for entry in entries:
        texts = {field.number: bytes(field.content).decode() for field in _fields(entry)}
        pairs[texts[_KEY]] = texts.get(_VALUE, "")
    length = int(pairs["length"]) if "length" in pairs else None
    return Location(pairs.get("location", ""), int(pairs.get("offset", 0)), length)


def _fields(message: memoryview) -> Iterator[_Field]:
    """Yield the fields of a message; raises ValueError or IndexError if it is none."""
    at = 0
    while at < len(message):
        start = at
        key, at = _varint(message, at)
        match key & 7:
            case 0:
                _, end = _varint(message, at)
            case 1:
                end = at + 8
            case 2:
                length, at = _varint(message, at)
                end = at + length
            case 5:
                end = at + 4
            case _:
                raise ValueError(f"wire type {key & 7}")
        if end > len(message):
            raise ValueError("a field is cut short")
        yield _Field(key >> 3, message[start:end], message[at:end])
        at = end


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    """Return the integer at a place, in 7 bits a byte, and where it ends."""
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _field(number: int, content: bytes) -> bytes:
    """Return a field of bytes or of a message."""
    return _to_varint(number << 3 | 2) + _to_varint(len(content)) + content


def _to_varint(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
