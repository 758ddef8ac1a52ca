"""Upgrades a catalog of an earlier format in place."""

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
    FOLDERS,
    IMAGE_FACTS,
    IMAGES,
    META,
    PATH_FACTS,
    PATHS,
    UPGRADABLE_FORMATS,
    create_tables,
)
from hasse.index.types import FolderRow, ImageRow, PathRow

FORMAT_OF_0_2_0 = 6
_OLD_FOLDERS = sql.table("folders", sql.column("path", Text), sql.column("device", BigInteger))


def upgrade(catalog: Catalog, index_folder: Path) -> None:
    """Upgrade a catalog of a format in `UPGRADABLE_FORMATS`; do nothing to any other.

    The text index is built from the captions and names in the catalog. In 0.2.0, paths outside the
    index were relative to it. They become absolute, and their folders are stored both as absolute
    paths and relative to the index.
    """
    with catalog.writing() as connection:
        meta = connection.execute(sql.select(META)).one()
        if meta.format not in UPGRADABLE_FORMATS:
            return
        if meta.format == FORMAT_OF_0_2_0:
            _upgrade_paths(connection, index_folder)
        create_tables(connection)
        documents.add_missing(connection)
        mutations.set_model(connection, model_of(meta), meta.generation)


def _upgrade_paths(connection: Connection, index_folder: Path) -> None:
    """Make the paths of 0.2.0 absolute, and store their folders."""
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
    images = connection.execute(sql.select(*IMAGE_FACTS).where(outside)).all()
    for image in map(ImageRow._make, images):
        path = _absolute(index_folder, image.path)
        mutations.replace_image(connection, image._replace(path=path))
    relative = sql.or_(PATHS.c.path.startswith("../"), PATHS.c.folder.startswith("../"))
    ids = sql.select(PATHS.c.image_id).where(relative).distinct()
    files: dict[int, list[PathRow]] = {}
    for row in connection.execute(sql.select(*PATH_FACTS).where(PATHS.c.image_id.in_(ids))).all():
        file = PathRow._make(row)
        path = _absolute(index_folder, file.path)
        folder = file.folder and _absolute(index_folder, file.folder)
        files.setdefault(file.image_id, []).append(file._replace(path=path, folder=folder))
    mutations.replace_paths(connection, files)


def _absolute(index_folder: Path, path: str) -> str:
    return os.path.normpath(index_folder / path) if path.startswith("../") else path


def _other_folders(connection: Connection, followed: dict[str, int]) -> dict[str, None]:
    """Return the folders of pictures outside all followed folders."""
    not_followed = sql.select(PATHS.c.path).where(PATHS.c.folder == "")
    paths = connection.execute(not_followed).scalars().all()
    return {folder: None for folder in folders_of(paths) if folder not in followed}
