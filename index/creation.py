"""Make an empty index on disk."""

from __future__ import annotations

from pathlib import Path

from index import durable
from index.catalog import mutations
from index.catalog.catalog import Catalog
from index.catalog.database import CATALOG
from index.errors import IndexExistsError, NotAnIndexError, disk_full_reported
from index.locking import locked
from index.segments.compaction import WORKSPACE
from index.segments.segment import SEGMENTS_FOLDER
from index.segments.writer import LOCK
from index.staging import STAGING
from index.types import ModelIdentity


def create(folder: Path, catalog: Catalog, model: ModelIdentity) -> None:
    """Make the folder and the tables of an index at generation 0.

    Raises:
        IndexExistsError: there is an index already.
        NotAnIndexError: what is not ours has the name of one of its parts.
        DiskFullError: there is no room.
    """
    is_file = catalog.url.get_backend_name() == "sqlite"
    with disk_full_reported(folder):
        durable.make_folder(folder)
        with locked(folder, catalog, LOCK, 0.0):
            if (not is_file or (folder / CATALOG).exists()) and catalog.exists():
                raise already_there(folder)
            _refuse_foreign(folder)
            (folder / SEGMENTS_FOLDER).mkdir(exist_ok=True)
            mutations.create(catalog, model)
            durable.sync_folder(folder)


def already_there(folder: Path) -> IndexExistsError:
    """Return the error for a folder that must not be written over."""
    return IndexExistsError(
        f"{folder} already holds an index: add to it with 'hasse index add', or choose another "
        "folder"
    )


def _refuse_foreign(folder: Path) -> None:
    # A writer sweeps away what these folders hold and no catalog knows.
    for name in (SEGMENTS_FOLDER, STAGING, WORKSPACE):
        place = folder / name
        if place.is_file() or (place.is_dir() and any(place.iterdir())):
            raise NotAnIndexError(
                f"{place} is there, and no index that it belongs to: choose another folder, or "
                "move it away"
            )
