"""What may enter an index: the checks of ids, points and texts before anything is written."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from hasse.index.errors import BadPointsError, BadRowsError
from hasse.index.types import CaptionRow, Ids, ImageRow, Kind, Points
from hasse.models.score import Score

# Of a point, stored or asked for: what searches make of squared lengths, as FAISS does, fits into a
# float32.
LONGEST = 1e18


def checked(
    kind: Kind,
    ids: ArrayLike,
    points: ArrayLike,
    dimension: int,
    score: Score,
    first: int = 0,
) -> Points:
    """Return `points` as float32 (R, N), or say which row cannot be stored.

    Coordinates are finite and, unless the score is cosine, not negative; lengths are at most 1e18.
    `first` is the number of the first of these rows, where they are a part of others.

    Raises:
        BadPointsError: a shape is wrong, a coordinate is not allowed or a point too long.
    """
    rows = np.asarray(ids)
    try:
        given = np.asarray(points)
    except ValueError as error:
        raise BadPointsError(
            f"the {kind} points are not all of one length ({error}), and this index holds points "
            f"of {dimension} coordinates: encode them with the model that made the index"
        ) from error
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
            f"{kind} {rows[row]} (row {first + row}) has {given[row, coordinate]} at coordinate "
            f"{coordinate}: points are finite"
            + ("" if score == "cosine" else " and not negative")
            + "; encode it again or leave it out"
        )
    if (found := too_long(single)) is not None:
        row, length = found
        raise BadPointsError(
            f"{kind} {rows[row]} (row {first + row}) has the length {length:.3g}, and points are "
            f"no longer than {LONGEST:.0e}; encode it again or leave it out"
        )
    return single


def too_long(points: Points) -> tuple[int, float] | None:
    """Return the row and the length of the longest of finite points (R, N), if it is too long."""
    with np.errstate(over="ignore"):
        squares = np.einsum("ij,ij->i", points, points)
    if squares.max(initial=0) <= LONGEST**2:
        return None
    row = int(np.argmax(squares))
    return row, float(np.linalg.norm(points[row].astype(np.float64)))


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
