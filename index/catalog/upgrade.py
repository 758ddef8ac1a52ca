"""Brings a catalog of an earlier format to that of this version, in place."""

from __future__ import annotations

import os
from pathlib import Path

import sqlalchemy as sql
from sqlalchemy import BigInteger, Connection, Text

from hasse.index.catalog import documents, mutations
from hasse.index.catalog.catalog import Catalog
from hasse.index.catalog.locations import folders_of
from hasse.index.catalog.records import model_of
from hasse.index.catalog.schema import (
    BEFORE,
    FOLDERS,
    IMAGE_FACTS,
    IMAGES,
    META,
    PATH_FACTS,
    PATHS,
    create_tables,
)
from hasse.index.types import FolderRow, ImageRow, PathRow

OF_0_2_0 = 6
_OLD_FOLDERS = sql.table("folders", sql.column("path", Text), sql.column("device", BigInteger))


def upgrade(catalog: Catalog, index_folder: Path) -> None:
    """Bring a catalog of a format in `BEFORE` up to date; nothing happens to any other.

    The text index is made of the captions and names that there are. In 0.2.0, paths beside the
    index were relative to it. They become absolute below the folders that they lie in, and these
    are remembered relative to the index too.
    """
    with catalog.writing() as connection:
        meta = connection.execute(sql.select(META)).one()
        if meta.format not in BEFORE:
            return
        if meta.format == OF_0_2_0:
            _move_paths(connection, index_folder)
        create_tables(connection)
        documents.add_missing(connection)
        mutations.set_model(connection, model_of(meta), meta.generation)


def _move_paths(connection: Connection, index_folder: Path) -> None:
    """Make the paths of 0.2.0 absolute below folders that are remembered."""
    devices = {
        _absolute(index_folder, row.path): row.device
        for row in connection.execute(sql.select(_OLD_FOLDERS))
    }
    FOLDERS.drop(connection)
    create_tables(connection)
    _make_paths_absolute(connection, index_folder)
    mutations.remember_folders(
        connection,
        (
            FolderRow(path, path, os.path.relpath(path, index_folder), device)
            for path, device in (devices | _other_folders(connection, devices)).items()
        ),
    )


def _make_paths_absolute(connection: Connection, index_folder: Path) -> None:
    outside = IMAGES.c.path.startswith("../")
    for image in connection.execute(sql.select(*IMAGE_FACTS).where(outside)).all():
        row = ImageRow._make(image)
        path = _absolute(index_folder, row.path)
        mutations.replace_image(connection, row._replace(path=path))
    relative = sql.or_(PATHS.c.path.startswith("../"), PATHS.c.folder.startswith("../"))
    ids = sql.select(PATHS.c.image_id).where(relative).distinct()
    files: dict[int, list[PathRow]] = {}
    for found in connection.execute(sql.select(*PATH_FACTS).where(PATHS.c.image_id.in_(ids))).all():
        file = PathRow._make(found)
        path = _absolute(index_folder, file.path)
        folder = file.folder and _absolute(index_folder, file.folder)
        files.setdefault(file.image_id, []).append(file._replace(path=path, folder=folder))
    mutations.replace_paths(connection, files)


def _absolute(index_folder: Path, path: str) -> str:
    return os.path.normpath(index_folder / path) if path.startswith("../") else path


def _other_folders(connection: Connection, followed: dict[str, int]) -> dict[str, None]:
    """Return the folders of pictures which lie in no followed folder."""
    singly = sql.select(PATHS.c.path).where(PATHS.c.folder == "")
    paths = connection.execute(singly).scalars().all()
    return {folder: None for folder in folders_of(paths) if folder not in followed}
