"""Orders of images other than those of a search: by date, stars or folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import sqlalchemy as sql
from sqlalchemy import Connection

from hasse.index.catalog.schema import IMAGES, METADATA

Order = Literal["newest", "oldest", "added", "rating", "folder"]
DAY = 86_400_000  # milliseconds

_NEWEST = IMAGES.c.taken.desc().nulls_last(), IMAGES.c.id.desc()
_STARS = sql.func.coalesce(METADATA.c.rating, 0).desc()
_COLUMNS: Mapping[Order, Sequence[sql.ColumnElement[Any]]] = {
    "newest": _NEWEST,
    "oldest": (IMAGES.c.taken.asc().nulls_last(), IMAGES.c.id),
    "added": (IMAGES.c.added.desc(), IMAGES.c.id.desc()),
    "rating": (_STARS, *_NEWEST),
    "folder": (IMAGES.c.path, IMAGES.c.id),
}


def ordered_ids(
    connection: Connection,
    order: Order,
    conditions: Sequence[sql.ColumnElement[bool]],
    offset: int = 0,
    limit: int | None = None,
) -> list[int]:
    """Return the ids of images in an order; images without a date follow those with one."""
    statement = sql.select(IMAGES.c.id).where(*conditions).order_by(*_COLUMNS[order])
    if order == "rating":
        statement = statement.outerjoin(METADATA)
    return list(connection.execute(statement.offset(offset).limit(limit)).scalars())


def counts_by_day(
    connection: Connection, conditions: Sequence[sql.ColumnElement[bool]]
) -> dict[int | None, int]:
    """Return the number of images by days since 1970, the latest first, those without a date last.

    The days are of `taken`, which may be before 1970.
    """
    of_day = ((IMAGES.c.taken % DAY) + DAY) % DAY
    days = sql.select(((IMAGES.c.taken - of_day) // DAY).label("day")).where(*conditions).subquery()
    counts = sql.select(days.c.day, sql.func.count()).group_by(days.c.day)
    rows = connection.execute(counts.order_by(days.c.day.desc().nulls_last()))
    return {row[0]: row[1] for row in rows}
