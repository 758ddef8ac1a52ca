"""Rows of the catalog by a list of ids, in one statement that is given to the driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import sqlalchemy as sql
from sqlalchemy import JSON, BigInteger, Column, Text

from index.schema import CAPTION_FACTS, CAPTIONS, IMAGE_FACTS, IMAGES

_NO_ROWS: sql.ColumnElement[str] = sql.literal_column("'[]'")


def _rows_by(column: Column[Any], columns: Sequence[Column[Any]]) -> dict[str, sql.Select[Any]]:
    """Return what gives the rows whose `column` is one of `:ids`, for each database.

    Ids come and rows go as one text, a list and a list of lists in JSON: between two rows of
    SQLite other threads of a busy service would go first, for milliseconds each time, and a
    statement that is made once costs a quarter of one that is made for each list of ids.
    """
    ids = sql.bindparam("ids", type_=Text)
    each = sql.func.json_each(ids).table_valued("value").c.value
    one = sql.func.json_array_elements_text(sql.cast(ids, JSON)).column_valued("value")
    rows = sql.func.json_agg(sql.func.json_build_array(*columns))
    return {
        "sqlite": sql.select(sql.func.json_group_array(sql.func.json_array(*columns))).where(
            column.in_(sql.select(each))
        ),
        "postgresql": sql.select(sql.func.coalesce(sql.cast(rows, Text), _NO_ROWS)).where(
            column.in_(sql.select(sql.cast(one, BigInteger)))
        ),
    }


IMAGES_BY_ID = _rows_by(IMAGES.c.id, IMAGE_FACTS)
CAPTIONS_BY_ID = _rows_by(CAPTIONS.c.id, CAPTION_FACTS)
CAPTIONS_BY_IMAGE = _rows_by(CAPTIONS.c.image_id, CAPTION_FACTS)
# Both in one statement: two cost a search twice as much, and would be of two instants.
IMAGES_WITH_CAPTIONS: dict[str, sql.Select[Any]] = {
    database: sql.select(
        images.scalar_subquery().label("images"),
        CAPTIONS_BY_IMAGE[database].scalar_subquery().label("captions"),
    )
    for database, images in IMAGES_BY_ID.items()
}


class Lookup(NamedTuple):
    """A statement about a list of ids, as the driver takes it.

    It needs no transaction, and it runs when a search has just filled the processor's caches with
    rows. What SQLAlchemy does for a statement takes longer then than SQLite, and is left out.
    """

    statement: str
    places: int | None  # that the ids are given for; None where the parameter has a name

    @classmethod
    def compiled(cls, by_database: Mapping[str, sql.Select[Any]], dialect: sql.Dialect) -> Self:
        """Return the one of some statements that is for a database; see `_rows_by`."""
        found: Any = by_database[dialect.name].compile(dialect=dialect)
        return cls(str(found), len(found.positiontup) if found.positional else None)

    def parameters(self, ids: str) -> dict[str, str] | tuple[str, ...]:
        """Return what the statement is executed with, for a list of ids in JSON."""
        return {"ids": ids} if self.places is None else (ids,) * self.places
