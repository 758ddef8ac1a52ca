"""Points on disk: a `.npy` file that grows block by block, and the checks before a point enters."""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import ArrayLike, DTypeLike, NDArray

from index import durable
from index.errors import REMEDY, BadPointsError, BadRowsError, DamagedIndexError
from index.scan import read_only
from index.terms import CaptionRow, Ids, ImageRow, Kind, Points, Score

_READ_BYTES = 1 << 20
# Of a point: what searches make of squared lengths, as FAISS does, fits into a float32.
_LONGEST = 1e18


def checked(kind: Kind, ids: ArrayLike, points: ArrayLike, dimension: int, score: Score) -> Points:
    """Return `points` as float32 (R, N), or say which row cannot be stored.

    Coordinates are finite and, unless the score is cosine, not negative; lengths are at most 1e18.

    Raises:
        BadPointsError: a shape is wrong, a coordinate is not allowed or a point too long.
    """
    rows = np.asarray(ids)
    try:
        given = np.asarray(points)
    except ValueError as error:
        raise _ragged(kind, rows, points, dimension) from error
    if given.ndim != 2 or given.shape[1] != dimension:
        raise BadPointsError(
            f"the {kind} points have the shape {given.shape}, and this index holds points of "
            f"{dimension} coordinates: encode them with the model that made the index"
        )
    if len(given) != len(rows):
        raise BadPointsError(
            f"{len(rows)} {kind} ids came with {len(given)} points: pass one point for each id"
        )
    with np.errstate(over="ignore"):
        single = np.ascontiguousarray(given, dtype=np.float32)
    lowest = -np.inf if score == "cosine" else 0.0
    if single.size and not (np.isfinite(single).all() and single.min() >= lowest):
        wrong = ~np.isfinite(single) | (single < lowest)
        row, coordinate = np.argwhere(wrong)[0]
        raise BadPointsError(
            f"{kind} {rows[row]} (row {row}) has {given[row, coordinate]} at coordinate "
            f"{coordinate}: points are finite"
            + ("" if score == "cosine" else " and not negative")
            + "; encode it again or leave it out"
        )
    with np.errstate(over="ignore"):
        squares = np.einsum("ij,ij->i", single, single)
    if single.size and squares.max() > _LONGEST**2:
        row = int(np.argmax(squares))
        length = np.linalg.norm(single[row].astype(np.float64))
        raise BadPointsError(
            f"{kind} {rows[row]} (row {row}) has the length {length:.3g}, and points are no longer "
            f"than {_LONGEST:.0e}; encode it again or leave it out"
        )
    return single


def _ragged(kind: Kind, ids: NDArray[Any], points: ArrayLike, dimension: int) -> BadPointsError:
    """Name the first of the points, lists of different lengths, that is not of the dimension."""
    rows: Any = points
    lengths = [np.size(point) for point in rows]
    row = next((at for at, length in enumerate(lengths) if length != dimension), 0)
    name = f"{kind} {ids[row]} (row {row})" if row < len(ids) else f"row {row}"
    return BadPointsError(
        f"{name} has {lengths[row]} coordinates, and this index holds points of {dimension}: "
        "encode it with the model that made the index"
    )


def first_duplicate(ids: Ids) -> int | None:
    """Return an id that occurs twice, or None."""
    ordered = np.sort(ids)
    again = np.flatnonzero(ordered[1:] == ordered[:-1])
    return int(ordered[again[0]]) if len(again) else None


def checked_ids(kind: Kind, ids: ArrayLike) -> Ids:
    """Return ids as int64 (R,), or say which one occurs twice.

    Raises:
        BadRowsError: an id occurs twice, or is not a whole number of 64 bits.
    """
    try:
        given = np.asarray(ids)
        with np.errstate(invalid="ignore"):
            whole = given.astype(np.int64).reshape(-1)
        if not np.array_equal(whole, given.reshape(-1)):
            raise ValueError("it would become another")
    except (OverflowError, ValueError, TypeError) as error:
        raise BadRowsError(
            f"the id of one {kind} is not a whole number of 64 bits ({error}): number the {kind}s"
        ) from error
    if (twice := first_duplicate(whole)) is not None:
        raise BadRowsError(f"{kind} {twice} occurs twice: give every {kind} an id of its own")
    return whole


def check_texts(rows: Iterable[ImageRow | CaptionRow]) -> None:
    """Refuse rows whose text a database cannot hold.

    Raises:
        BadRowsError: half of a surrogate pair, or a NUL; the message names the row.
    """
    for row in rows:
        texts = (row.text,) if isinstance(row, CaptionRow) else (row.file_name, row.path, row.split)
        if (fault := fault_of("".join(texts))) is not None:
            kind = "caption" if isinstance(row, CaptionRow) else "image"
            raise BadRowsError(
                f"the text of {kind} {row.id} {fault}: repair it or leave the {kind} out"
            )


def fault_of(text: str) -> str | None:
    """Say why a database cannot hold a text; None where it can."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"is not Unicode ({error})"
    # SQLite would take it, PostgreSQL does not.
    return "holds a NUL character" if "\0" in text else None


class GrowingArray:
    """A `.npy` file that rows are appended to. The header has room for any number of them."""

    def __init__(self, path: Path, dtype: DTypeLike, shape: tuple[int, ...], rows: int = 0) -> None:
        """Start a file, or go on with one after its first `rows` rows: what follows is cut off."""
        self.path = path
        self.dtype = np.dtype(dtype)
        self.shape = shape  # of one row
        self.rows = rows
        self._file: IO[bytes] = path.open("r+b" if rows else "w+b")
        self._write_header()
        if rows:
            self._file.truncate(self._file.tell() + rows * self._row_bytes)
            self._file.seek(0, 2)

    @property
    def _row_bytes(self) -> int:
        return self.dtype.itemsize * int(np.prod(self.shape, dtype=np.int64))

    def append(self, block: NDArray[np.generic]) -> None:
        """Write the rows of `block` after those that are there."""
        plain = np.ascontiguousarray(block, dtype=self.dtype)
        if plain.size:
            durable.write(self._file, plain.data.cast("B"))
        self.rows += len(plain)

    def sync(self) -> None:
        """Return when all rows are on the disk."""
        durable.sync(self._file)

    def close(self) -> None:
        """Put the number of rows into the header and close; `durable.settle` is for the folder."""
        self._write_header()
        self._file.close()

    def abandon(self) -> None:
        """Close the file as it is."""
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


def let_go(array: NDArray[Any]) -> None:
    """Return the memory of a mapped array to the system; what is read again comes back."""
    _advise(array, mmap.MADV_DONTNEED)


def read_here_and_there(array: NDArray[Any]) -> None:
    """Tell the system that of a mapped array a row here and a row there will be read.

    It would bring 128 KB around each, which costs time, and where memory is short drives out what
    is needed.
    """
    _advise(array, mmap.MADV_RANDOM)


@contextmanager
def read_in_order(array: NDArray[Any]) -> Iterator[None]:
    """Let the system read ahead, while the block reads an array that is else read here and there.

    Of two blocks at a time the one that ends later may read more slowly.
    """
    _advise(array, mmap.MADV_NORMAL)
    try:
        yield
    finally:
        read_here_and_there(array)


def _advise(array: NDArray[Any], advice: int) -> None:
    owner: Any = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    if isinstance(owner, mmap.mmap):
        owner.madvise(advice)


def mapped(path: Path, dtype: type[np.generic], shape: tuple[int, ...]) -> NDArray[Any]:
    """Map a `.npy` file read-only; read it where it is small, since a map costs a descriptor.

    Raises:
        DamagedIndexError: it is not an array, or not the one expected.
    """
    try:
        small = path.stat().st_size <= _READ_BYTES
        array = np.load(path, mmap_mode=None if small else "r", allow_pickle=False)
    except ValueError as error:
        raise DamagedIndexError(f"{path} is not an array file ({error}): {REMEDY}") from error
    if array.shape != shape or array.dtype != dtype:
        raise DamagedIndexError(
            f"{path} holds {array.dtype} {array.shape} and should hold "
            f"{np.dtype(dtype)} {shape}: {REMEDY}"
        )
    return read_only(array)
