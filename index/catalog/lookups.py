"""SQL statements that return rows of the catalog for a list of ids, run without SQLAlchemy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sql
from sqlalchemy import JSON, BigInteger, Column, Text

from hasse.index.catalog.schema import (
    CAPTION_FACTS,
    CAPTIONS,
    DELETED,
    IMAGE_FACTS,
    IMAGES,
    PATH_FACTS,
    PATHS,
    TEXT_FACTS,
    TEXTS,
    WRITTEN,
)
from hasse.index.types import Kind

_NO_ROWS: sql.ColumnElement[str] = sql.literal_column("'[]'")


def _listed(column: Column[Any]) -> dict[str, sql.ColumnElement[bool]]:
    """Return the SQL condition that `column` is one of `:ids`, for each database."""
    ids = sql.bindparam("ids", type_=Text)
    each = sql.func.json_each(ids).table_valued("value").c.value
    one = sql.func.json_array_elements_text(sql.cast(ids, JSON)).column_valued("value")
    return {
        "sqlite": column.in_(sql.select(each)),
        "postgresql": column.in_(sql.select(sql.cast(one, BigInteger))),
    }


def _rows_by(
    column: Column[Any], columns: Sequence[sql.ColumnElement[Any]]
) -> dict[str, sql.Select[Any]]:
    """Return the statement for the rows whose `column` is one of `:ids`, for each database.

    Ids and rows are one text each, in JSON. Fetched row by row, SQLite would wait for other
    threads of a busy service between two rows, for milliseconds each time. And a statement that is
    compiled once costs a quarter of one that is compiled for each list of ids.
    """
    return _listed_rows(column, {"sqlite": columns, "postgresql": columns})


def _listed_rows(
    column: Column[Any], columns: Mapping[str, Sequence[sql.ColumnElement[Any]]]
) -> dict[str, sql.Select[Any]]:
    listed, func = _listed(column), sql.func
    rows = func.json_agg(func.json_build_array(*columns["postgresql"]))
    return {
        "sqlite": sql.select(func.json_group_array(func.json_array(*columns["sqlite"]))).where(
            listed["sqlite"]
        ),
        "postgresql": sql.select(func.coalesce(sql.cast(rows, Text), _NO_ROWS)).where(
            listed["postgresql"]
        ),
    }


def _own_captions() -> dict[str, sql.ScalarSelect[Any]]:
    """Return an image's captions as one list, each with who wrote it, for each database."""
    own = sql.select(CAPTIONS.c.text, WRITTEN.c.written_by).outerjoin(WRITTEN)
    own = own.where(CAPTIONS.c.image_id == IMAGES.c.id).order_by(CAPTIONS.c.id)
    each = own.correlate(IMAGES).subquery().c
    return _one_list(
        {
            "sqlite": sql.func.json_array(each.text, each.written_by),
            "postgresql": sql.func.json_build_array(each.text, each.written_by),
        }
    )


def _own_paths(image_id: Column[Any]) -> dict[str, sql.ScalarSelect[Any]]:
    """Return the paths of an image as one list, each with its folder, for each database."""
    files = sql.select(PATHS.c.path, PATHS.c.folder).where(PATHS.c.image_id == image_id)
    file = files.order_by(PATHS.c.path).correlate(image_id.table).subquery().c
    return _one_list(
        {
            "sqlite": sql.func.json_array(file.path, file.folder),
            "postgresql": sql.func.json_build_array(file.path, file.folder),
        }
    )


def _one_list(each: Mapping[str, sql.ColumnElement[Any]]) -> dict[str, sql.ScalarSelect[Any]]:
    func = sql.func
    listed = func.coalesce(func.json_agg(each["postgresql"]), sql.cast(_NO_ROWS, JSON))
    return {
        "sqlite": sql.select(func.json_group_array(each["sqlite"])).scalar_subquery(),
        "postgresql": sql.select(listed).scalar_subquery(),
    }


def _named_images() -> dict[str, sql.Select[Any]]:
    """Return the statement for the `NamedImage`s whose id is one of `:ids`, for each database.

    An answer has ten of them: reading only the columns it needs takes two thirds of the time.
    """
    captions, paths = _own_captions(), _own_paths(IMAGES.c.id)
    return _listed_rows(
        IMAGES.c.id,
        {
            database: (
                IMAGES.c.id,
                IMAGES.c.file_name,
                IMAGES.c.width,
                IMAGES.c.height,
                captions[database],
                paths[database],
            )
            for database in captions
        },
    )


def _found_captions() -> dict[str, sql.Select[Any]]:
    """Return the statement for the `FoundCaption`s with one of `:ids`, for each database."""
    paths = _own_paths(CAPTIONS.c.image_id)
    name = sql.select(IMAGES.c.file_name).where(IMAGES.c.id == CAPTIONS.c.image_id)
    own = (*CAPTION_FACTS, name.correlate(CAPTIONS).scalar_subquery())
    return _listed_rows(CAPTIONS.c.id, {database: (*own, paths[database]) for database in paths})


def _last_removal(kind: Kind) -> dict[str, sql.Select[Any]]:
    """Return the statement for the generation that last removed one of `:ids`, or 0."""
    last = sql.func.coalesce(sql.func.max(DELETED.c.generation), sql.literal_column("0"))
    return {
        database: sql.select(sql.cast(last, Text)).where(
            DELETED.c.kind == sql.literal_column(f"'{kind}'"), listed
        )
        for database, listed in _listed(DELETED.c.id).items()
    }


def _together(**parts: Mapping[str, sql.Select[Any]]) -> dict[str, sql.Select[Any]]:
    """Join several statements into one, for each database.

    Two statements would cost a search twice as much, and belong to two instants.
    """
    return {
        database: sql.select(
            *(part[database].scalar_subquery().label(name) for name, part in parts.items())
        )
        for database in ("sqlite", "postgresql")
    }


_IMAGES = _rows_by(IMAGES.c.id, IMAGE_FACTS)
_CAPTIONS_OF = _rows_by(CAPTIONS.c.image_id, CAPTION_FACTS)
_PATHS_OF = _rows_by(PATHS.c.image_id, PATH_FACTS)
# Each for each database, by what it returns.
LOOKUPS: Mapping[str, Mapping[str, sql.Select[Any]]] = {
    "images": _IMAGES,
    "captions": _rows_by(CAPTIONS.c.id, CAPTION_FACTS),
    "captions of images": _CAPTIONS_OF,
    "paths of images": _PATHS_OF,
    "described images": _together(images=_IMAGES, captions=_CAPTIONS_OF, paths=_PATHS_OF),
    "image hits": _together(images=_named_images(), removal=_last_removal("image")),
    "texts of images": _rows_by(TEXTS.c.image_id, TEXT_FACTS),
    "caption hits": _together(captions=_found_captions(), removal=_last_removal("caption")),
}
