"""Creates an empty index on disk, or opens the catalog of an index."""

from __future__ import annotations

from pathlib import Path

from hasse.index import durable
from hasse.index.catalog import mutations
from hasse.index.catalog.catalog import Catalog
from hasse.index.catalog.database import CATALOG, catalog_url
from hasse.index.catalog.documents import add_vocabulary
from hasse.index.catalog.generation_file import refuse_newer
from hasse.index.catalog.schema import FORMAT
from hasse.index.errors import (
    IndexExistsError,
    MissingIndexError,
    NotAnIndexError,
    disk_full_reported,
)
from hasse.index.locking import locked
from hasse.index.segments.compaction import WORKSPACE
from hasse.index.segments.segment import SEGMENTS_FOLDER
from hasse.index.segments.staging import STAGING
from hasse.index.segments.writer import LOCK, LOCK_TIMEOUT
from hasse.index.types import ModelIdentity


def create_index(folder: Path, catalog: Catalog, model: ModelIdentity) -> None:
    """Create the folder and the tables of an index at generation 0.

    Raises:
        IndexExistsError: there is an index already, perhaps one that another process has just made.
        NotAnIndexError: other files have the names of parts of an index.
        DiskFullError: there is no room.
    """
    with disk_full_reported(folder):
        durable.make_folder(folder)
        if _exists(folder, catalog):  # checked before the lock, which a build holds for hours
            raise index_exists(folder)
        with locked(folder, catalog, LOCK, LOCK_TIMEOUT):
            if _exists(folder, catalog):
                raise index_exists(folder)
            _refuse_foreign(folder)
            (folder / SEGMENTS_FOLDER).mkdir(exist_ok=True)
            mutations.create_catalog(catalog, model)
            durable.sync_folder(folder)


def open_catalog(folder: Path) -> Catalog:
    """Connect to the catalog of an index, at the address from `catalog_url`.

    Raises:
        MissingIndexError, NotAnIndexError: there is no catalog, or it is something else.
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
        if catalog.format() == FORMAT:
            add_vocabulary(catalog)
    except BaseException:
        catalog.close()
        raise
    return catalog


def index_exists(folder: Path) -> IndexExistsError:
    """Return the error for a folder that holds an index already."""
    return IndexExistsError(
        f"{folder} already holds an index: add to it with 'hasse add', or choose another folder"
    )


def _exists(folder: Path, catalog: Catalog) -> bool:
    return (catalog.is_server or (folder / CATALOG).exists()) and catalog.exists()


def _refuse_foreign(folder: Path) -> None:
    # A writer removes everything in these folders that the catalog does not list.
    for name in (SEGMENTS_FOLDER, STAGING, WORKSPACE):
        path = folder / name
        if path.is_file() or (path.is_dir() and any(path.iterdir())):
            raise NotAnIndexError(
                f"{path} exists, and belongs to no index: choose another folder, or move it away"
            )
