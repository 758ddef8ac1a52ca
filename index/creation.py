"""Make an empty index on disk, or open the catalog of an index."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from hasse.index import durable
from hasse.index.catalog import mutations
from hasse.index.catalog.catalog import Catalog
from hasse.index.catalog.database import CATALOG, catalog_url
from hasse.index.catalog.generation_file import refuse_newer
from hasse.index.catalog.schema import BEFORE
from hasse.index.catalog.upgrade import upgrade
from hasse.index.errors import (
    IndexExistsError,
    MissingIndexError,
    NotAnIndexError,
    ReadOnlyIndexError,
    disk_full_reported,
)
from hasse.index.locking import locked
from hasse.index.segments.compaction import WORKSPACE
from hasse.index.segments.segment import SEGMENTS_FOLDER
from hasse.index.segments.staging import STAGING
from hasse.index.segments.writer import LOCK, LOCK_TIMEOUT
from hasse.index.types import ModelIdentity


def create(folder: Path, catalog: Catalog, model: ModelIdentity) -> None:
    """Make the folder and the tables of an index at generation 0.

    Raises:
        IndexExistsError: there is an index already; where two processes make one, the second sees
            this.
        NotAnIndexError: other files have the names of parts of an index.
        DiskFullError: there is no room.
    """
    with disk_full_reported(folder):
        durable.make_folder(folder)
        if _is_made(folder, catalog):  # perhaps by a process that holds the lock for long
            raise already_there(folder)
        with locked(folder, catalog, LOCK, LOCK_TIMEOUT):
            if _is_made(folder, catalog):
                raise already_there(folder)
            _refuse_foreign(folder)
            (folder / SEGMENTS_FOLDER).mkdir(exist_ok=True)
            mutations.create(catalog, model)
            durable.sync_folder(folder)


def open_catalog(folder: Path) -> Catalog:
    """Connect to the catalog of an index, at the address that `catalog_url` returns.

    A catalog of an earlier format is upgraded, where it can be written.

    Raises:
        MissingIndexError, NotAnIndexError: there is none, or it is something else.
    """
    url = catalog_url(folder)
    if url.get_backend_name() == "sqlite" and not (folder / CATALOG).is_file():
        raise MissingIndexError(
            f"there is no library in {folder} yet: 'hasse add FOLDER' makes one of your pictures"
        )
    catalog = Catalog(url)
    try:
        if not catalog.exists():
            raise NotAnIndexError(
                f"{url.database} is not the catalog of an index: name the folder of an index, or "
                "build one"
            )
        refuse_newer(catalog.url, catalog.generation())
        if catalog.format() in BEFORE:
            with suppress(ReadOnlyIndexError):
                upgrade(catalog, folder.resolve())
    except BaseException:
        catalog.close()
        raise
    return catalog


def already_there(folder: Path) -> IndexExistsError:
    """Return the error for a folder that must not be written over."""
    return IndexExistsError(
        f"{folder} already holds an index: add to it with 'hasse add', or choose another folder"
    )


def _is_made(folder: Path, catalog: Catalog) -> bool:
    return (catalog.is_server or (folder / CATALOG).exists()) and catalog.exists()


def _refuse_foreign(folder: Path) -> None:
    # A writer removes everything in these folders that the catalog does not list.
    for name in (SEGMENTS_FOLDER, STAGING, WORKSPACE):
        place = folder / name
        if place.is_file() or (place.is_dir() and any(place.iterdir())):
            raise NotAnIndexError(
                f"{place} exists, and belongs to no index: choose another folder, or move it away"
            )
