"""Checks of ids, points and texts before they are written to an index."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from hasse.index.errors import BadPointsError, BadRowsError
from hasse.index.types import CaptionRow, Ids, ImageRow, Kind, Points
from hasse.models.score import Score

MAX_LENGTH = 1e18  # of a stored point or a query: FAISS adds squared lengths in float32


def checked_points(
    kind: Kind,
    ids: ArrayLike,
    points: ArrayLike,
    dimension: int,
    score: Score,
    first: int = 0,
) -> Points:
    """Return `points` as float32 (R, N) after checking each row.

    Coordinates are finite and, unless the score is cosine, not negative; lengths are at most 1e18.
    `first` is the number of the first row, for messages about a slice of a larger array.

    Raises:
        BadPointsError: the shape is wrong, a coordinate is not allowed, or a point is too long; the
            message names the row.
    """
    rows = np.asarray(ids)
    try:
        array = np.asarray(points)
    except ValueError as error:
        raise BadPointsError(
            f"the {kind} points are not all of one length ({error}), and this index holds points "
            f"of {dimension} coordinates: encode them with the model that made the index"
        ) from error
    if array.ndim != 2 or array.shape[1] != dimension:
        raise BadPointsError(
            f"the {kind} points have the shape {array.shape}, and this index holds points of "
            f"{dimension} coordinates: encode them with the model that made the index"
        )
    if len(array) != len(rows):
        raise BadPointsError(
            f"{len(rows)} {kind} ids came with {len(array)} points: pass one point for each id"
        )
    with np.errstate(over="ignore"):
        single = np.ascontiguousarray(array, dtype=np.float32)
    lowest = -np.inf if score == "cosine" else 0.0
    if single.size and not (np.isfinite(single).all() and single.min() >= lowest):
        wrong = ~np.isfinite(single) | (single < lowest)
        row, coordinate = np.argwhere(wrong)[0]
        raise BadPointsError(
            f"{kind} {rows[row]} (row {first + row}) has {array[row, coordinate]} at coordinate "
            f"{coordinate}: points are finite"
            + ("" if score == "cosine" else " and not negative")
            + "; encode it again or leave it out"
        )
    if (longest := too_long(single)) is not None:
        row, length = longest
        raise BadPointsError(
            f"{kind} {rows[row]} (row {first + row}) has the length {length:.3g}, and points are "
            f"no longer than {MAX_LENGTH:.0e}; encode it again or leave it out"
        )
    return single


def too_long(points: Points) -> tuple[int, float] | None:
    """Return row and length of the longest point, or None if no point is too long.

    `points` (R, N) are finite.
    """
    with np.errstate(over="ignore"):
        squares = np.einsum("ij,ij->i", points, points)
    if squares.max(initial=0) <= MAX_LENGTH**2:
        return None
    row = int(np.argmax(squares))
    return row, float(np.linalg.norm(points[row].astype(np.float64)))


def first_duplicate(ids: Ids) -> int | None:
    """Return an id that occurs twice, or None."""
    ordered = np.sort(ids)
    again = np.flatnonzero(ordered[1:] == ordered[:-1])
    return int(ordered[again[0]]) if len(again) else None


def checked_ids(kind: Kind, ids: ArrayLike) -> Ids:
    """Return ids as int64 (R,) after checking them.

    Raises:
        BadRowsError: an id occurs twice, or is not a whole number of 64 bits.
    """
    try:
        array = np.asarray(ids)
        with np.errstate(invalid="ignore"):
            integers = array.astype(np.int64).reshape(-1)
        if not np.array_equal(integers, array.reshape(-1)):
            raise ValueError("it would become another")
    except (OverflowError, ValueError, TypeError) as error:
        raise BadRowsError(
            f"the id of one {kind} is not a whole number of 64 bits ({error}): number the {kind}s"
        ) from error
    if (twice := first_duplicate(integers)) is not None:
        raise BadRowsError(f"{kind} {twice} occurs twice: give every {kind} an id of its own")
    return integers


def check_texts(rows: Iterable[ImageRow | CaptionRow]) -> None:
    """Refuse rows whose text a database cannot hold.

    Raises:
        BadRowsError: a text holds half of a surrogate pair, or a NUL; the message names the row.
    """
    for row in rows:
        texts = (row.text,) if isinstance(row, CaptionRow) else (row.file_name, row.path, row.split)
        if (fault := text_fault("".join(texts))) is not None:
            kind = "caption" if isinstance(row, CaptionRow) else "image"
            raise BadRowsError(
                f"the text of {kind} {row.id} {fault}: repair it or leave the {kind} out"
            )


def text_fault(text: str) -> str | None:
    """Return the reason why a database cannot hold a text, or None."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"is not Unicode ({error})"
    # SQLite would take it, PostgreSQL does not.
    return "holds a NUL character" if "\0" in text else None
