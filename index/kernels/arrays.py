"""`.npy` files: written block by block, and mapped as read-only arrays for the kernels."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
from numpy.lib import format as npy
from numpy.typing import DTypeLike, NDArray

from hasse.index import durable
from hasse.index.errors import DamagedIndexError

_READ_BYTES = 1 << 20

S = TypeVar("S", bound=np.generic)


class GrowingArray:
    """A `.npy` file that grows by rows. Its header has room for any number of rows."""

    def __init__(self, path: Path, dtype: DTypeLike, shape: tuple[int, ...]) -> None:
        """Create the file; `shape` is that of one row."""
        self.path = path
        self.dtype = np.dtype(dtype)
        self.shape = shape
        self.rows = 0
        self._file: IO[bytes] = path.open("w+b")
        self._write_header()

    def append(self, block: NDArray[np.generic]) -> None:
        """Append the rows of `block`."""
        plain = np.ascontiguousarray(block, dtype=self.dtype)
        if plain.size:
            durable.write(self._file, plain.data.cast("B"))
        self.rows += len(plain)

    def close(self) -> None:
        """Write the number of rows into the header and close; call `durable.settle` afterwards."""
        self._write_header()
        self._file.close()

    def abandon(self) -> None:
        """Close the file, unfinished."""
        self._file.close()

    def _write_header(self) -> None:
        self._file.seek(0)
        npy.write_array_header_1_0(
            self._file,
            {
                "descr": npy.dtype_to_descr(self.dtype),
                "fortran_order": False,
                "shape": (self.rows, *self.shape),
            },
        )


def release_memory(array: NDArray[Any]) -> None:
    """Return the memory of a mapped array to the system; rows are read again when needed."""
    _advise(array, mmap.MADV_DONTNEED)


def advise_random(array: NDArray[Any]) -> None:
    """Tell the system that rows of a mapped array are read in random order.

    By default the system reads 128 KB around each row. That takes time, and if memory is short it
    evicts rows that are needed.
    """
    _advise(array, mmap.MADV_RANDOM)


@contextmanager
def advise_sequential(array: NDArray[Any]) -> Iterator[None]:
    """Let the system read a mapped array ahead while the block runs.

    If two such blocks run at the same time, the one that ends later may read more slowly.
    """
    _advise(array, mmap.MADV_NORMAL)
    try:
        yield
    finally:
        advise_random(array)


def _advise(array: NDArray[Any], advice: int) -> None:
    owner: Any = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    if isinstance(owner, mmap.mmap):
        owner.madvise(advice)


def map_array(path: Path, dtype: type[np.generic], shape: tuple[int | None, ...]) -> NDArray[Any]:
    """Map a `.npy` file read-only; read it if it is small, since a map needs a file descriptor.

    `shape` has None where the file may have any size.

    Raises:
        DamagedIndexError: it is not an array file, or has another shape or dtype.
    """
    try:
        small = path.stat().st_size <= _READ_BYTES
        array = np.load(path, mmap_mode=None if small else "r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise DamagedIndexError(f"{path} is not an array file ({error})") from error
    known = tuple(
        None if size is None else got for size, got in zip(shape, array.shape, strict=False)
    )
    if array.ndim != len(shape) or known != shape or array.dtype != dtype:
        raise DamagedIndexError(
            f"{path} holds {array.dtype} {array.shape} and should hold {np.dtype(dtype)} {shape}"
        )
    return read_only(array)


def read_only(array: NDArray[S]) -> NDArray[S]:
    """Return a contiguous view that cannot be written; copy only if needed.

    All arrays reach the kernels in this form, so that each kernel is compiled once.
    """
    if type(array) is np.ndarray and array.flags.c_contiguous and not array.flags.writeable:
        return array
    plain = np.ascontiguousarray(array).view(np.ndarray)
    plain.flags.writeable = False
    return plain
