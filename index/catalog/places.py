"""Where files lie: paths as the catalog has them, and as selections name them.

The catalog has a path as an absolute one, or relative to the folder of the index.
"""

from __future__ import annotations

import os
from pathlib import Path

import sqlalchemy as sql
from sqlalchemy import Column, Connection

from hasse.index.catalog.schema import IMAGES, PATHS

_UP = "../"


def stored_path(index_folder: Path, path: str) -> str:
    """Return how the catalog names a file: one beside the index relative to it.

    So an index and its pictures can be moved together.
    """
    near = path.startswith(f"{index_folder.parent}/")
    return os.path.relpath(path, index_folder) if near else path


def absolute_path(index_folder: Path, path: str) -> str:
    """Return the place that a path of the catalog names."""
    return os.path.normpath(index_folder / path)


def lies_below(index_folder: Path, prefix: str) -> sql.ColumnElement[bool]:
    """Return what tells whether an image has a file whose absolute path begins with `prefix`."""
    return IMAGES.c.id.in_(sql.select(PATHS.c.image_id).where(_begins(index_folder, prefix)))


def shown_below(connection: Connection, index_folder: Path, prefix: str) -> sql.ColumnElement[bool]:
    """Return what tells whether a file of an image begins with `prefix` as answers show it.

    That is relative to the followed folder that it lies in; a file that lies in none is shown by
    the name of its image.
    """
    folders = connection.execute(sql.select(PATHS.c.folder).distinct()).scalars().all()
    followed = [
        sql.and_(
            PATHS.c.folder == folder,
            _begins(index_folder, f"{absolute_path(index_folder, folder).rstrip('/')}/{prefix}"),
        )
        for folder in folders
        if folder
    ]
    named = sql.or_(
        IMAGES.c.id.in_(sql.select(PATHS.c.image_id).where(PATHS.c.folder == "")),
        IMAGES.c.id.not_in(sql.select(PATHS.c.image_id)),
    )
    return sql.or_(
        IMAGES.c.id.in_(sql.select(PATHS.c.image_id).where(sql.or_(sql.false(), *followed))),
        sql.and_(_starts(IMAGES.c.file_name, prefix), named),
    )


def _begins(index_folder: Path, prefix: str) -> sql.ColumnElement[bool]:
    """Return what tells whether the absolute path that a row of `paths` names has a prefix."""
    path, (parent, _, name) = PATHS.c.path, prefix.rpartition("/")
    parent = parent or "/"
    if not prefix.startswith("/") or os.path.normpath(parent) != parent:  # as no path is written
        return sql.false()
    way = os.path.relpath(parent, index_folder)
    way = "" if way == "." else f"{way}/"
    relative = sql.and_(_starts(path, f"{way}{name}"), ~_starts(path, "/"))
    if not way.strip("./"):  # the parent is the folder of the index, or above it
        relative = sql.and_(relative, ~_starts(path, f"{way}{_UP}"))
    if way and f"{index_folder}/".startswith(prefix):  # paths that go less far up lie below, too
        relative = sql.or_(relative, ~_starts(path, "/") & ~_starts(path, way))
    return sql.or_(_starts(path, prefix), relative)


def _starts(column: Column[str], prefix: str) -> sql.ColumnElement[bool]:
    # SQLite's LIKE does not tell upper from lower case.
    return sql.func.substr(column, 1, len(prefix)) == prefix
