"""SQL statements that return rows of the catalog for a list of ids, run without SQLAlchemy.

The ids are one JSON text, and so are the rows. If rows were fetched one by one, SQLite would wait
between two rows for other threads of a busy service, for milliseconds each time. Compiling each
statement once, not for each list of ids, makes it four times as fast.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sql
from sqlalchemy import Column, ScalarSelect, Select, Text
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

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


class _Array(FunctionElement[Any]):
    """A JSON array of some columns."""

    inherit_cache = True


class _Arrays(FunctionElement[Any]):
    """A JSON array of one value from each row; empty without rows."""

    inherit_cache = True


class _IsIn(FunctionElement[bool]):
    """Whether a number is in a JSON array. PostgreSQL looks each of an array up in an index."""

    type = sql.Boolean()
    inherit_cache = True


_SYNTAX = {
    "sqlite": {
        _Array: "json_array(%s)",
        _Arrays: "json_group_array(%s)",
        _IsIn: "%s IN (SELECT value FROM json_each(%s))",
    },
    "postgresql": {
        _Array: "json_build_array(%s)",
        _Arrays: "coalesce(json_agg(%s), '[]'::json)",
        _IsIn: "%s = ANY(ARRAY("
        "SELECT value::bigint FROM json_array_elements_text(CAST(%s AS JSON))))",
    },
}


@compiles(_Array)
@compiles(_Arrays)
@compiles(_IsIn)
def _compiled(element: FunctionElement[Any], compiler: Any, **options: Any) -> str:
    arguments = [compiler.process(one, **options) for one in element.clauses]
    values = tuple(arguments) if isinstance(element, _IsIn) else ", ".join(arguments)
    return _SYNTAX[compiler.dialect.name][type(element)] % values


def _in_ids(column: Column[Any]) -> sql.ColumnElement[bool]:
    """Return the condition that `column` is one of `:ids`."""
    return _IsIn(column, sql.bindparam("ids", type_=Text))


def without_ids(image_ids: Sequence[int]) -> sql.ColumnElement[bool]:
    """Return the condition that an image is none of these; there may be any number of them."""
    ids = sql.bindparam(None, json.dumps(image_ids), type_=Text, unique=True)
    return ~_IsIn(IMAGES.c.id, ids)


def _rows_by(column: Column[Any], *columns: sql.ColumnElement[Any]) -> Select[Any]:
    """Return the statement for the rows whose `column` is one of `:ids`."""
    return sql.select(sql.cast(_Arrays(_Array(*columns)), Text)).where(_in_ids(column))


def _as_array(rows: Select[Any]) -> ScalarSelect[Any]:
    return sql.select(_Arrays(_Array(*rows.subquery().c))).scalar_subquery()


def _captions_of_image() -> ScalarSelect[Any]:
    """Return the captions of an image as one array, each with its `written_by`."""
    captions = sql.select(CAPTIONS.c.text, WRITTEN.c.written_by).outerjoin(WRITTEN)
    captions = captions.where(CAPTIONS.c.image_id == IMAGES.c.id).order_by(CAPTIONS.c.id)
    return _as_array(captions.correlate(IMAGES))


def _paths_of_image(image_id: Column[Any]) -> ScalarSelect[Any]:
    """Return the paths of an image as one array, each with its folder."""
    files = sql.select(PATHS.c.path, PATHS.c.folder).where(PATHS.c.image_id == image_id)
    return _as_array(files.order_by(PATHS.c.path).correlate(image_id.table))


def _image_hits() -> Select[Any]:
    """Return the statement for the `ImageHitRow`s whose id is one of `:ids`.

    An answer has ten of them: reading only the columns it needs takes two thirds of the time.
    """
    of = IMAGES.c
    facts = of.id, of.file_name, of.width, of.height, of.taken
    return _rows_by(of.id, *facts, _captions_of_image(), _paths_of_image(of.id))


def _caption_hits() -> Select[Any]:
    """Return the statement for the `CaptionHitRow`s whose id is one of `:ids`."""
    name = sql.select(IMAGES.c.file_name).where(IMAGES.c.id == CAPTIONS.c.image_id)
    image = name.correlate(CAPTIONS).scalar_subquery(), _paths_of_image(CAPTIONS.c.image_id)
    return _rows_by(CAPTIONS.c.id, *CAPTION_FACTS, *image)


def _last_removal(kind: Kind) -> Select[Any]:
    """Return the statement for the generation that last removed one of `:ids`, or 0."""
    last = sql.func.coalesce(sql.func.max(DELETED.c.generation), sql.literal_column("0"))
    of_kind = DELETED.c.kind == sql.literal_column(f"'{kind}'")
    return sql.select(sql.cast(last, Text)).where(of_kind, _in_ids(DELETED.c.id))


def _combine(**statements: Select[Any]) -> Select[Any]:
    """Combine statements into one that returns one row with the result of each.

    Two statements would cost a search twice as much, and read two instants.
    """
    return sql.select(*(each.scalar_subquery().label(name) for name, each in statements.items()))


_IMAGES = _rows_by(IMAGES.c.id, *IMAGE_FACTS)
_CAPTIONS_OF = _rows_by(CAPTIONS.c.image_id, *CAPTION_FACTS)
_PATHS_OF = _rows_by(PATHS.c.image_id, *PATH_FACTS)
LOOKUPS: Mapping[str, Select[Any]] = {
    "images": _IMAGES,
    "captions": _rows_by(CAPTIONS.c.id, *CAPTION_FACTS),
    "captions of images": _CAPTIONS_OF,
    "paths of images": _PATHS_OF,
    "described images": _combine(images=_IMAGES, captions=_CAPTIONS_OF, paths=_PATHS_OF),
    "image hits": _combine(images=_image_hits(), removal=_last_removal("image")),
    "texts of images": _rows_by(TEXTS.c.image_id, *TEXT_FACTS),
    "caption hits": _combine(captions=_caption_hits(), removal=_last_removal("caption")),
}


def lookup(name: str, dialect: sql.Dialect) -> str:
    """Return one of `LOOKUPS` as SQL for a database driver."""
    kind: Any = type(dialect)
    named = kind(paramstyle="named" if dialect.name == "sqlite" else "pyformat")
    return str(LOOKUPS[name].compile(dialect=named))
