"""The file INDEX/generation: the newest generation that the catalog may hold.

SQLite keeps a catalog in two files, the database and its log. A backup that is copied over a folder
in use replaces the database and leaves the newer log, and SQLite would join both. So a writer
writes to this file, before each commit, which generation it is about to commit. A backup replaces
this file too, and a catalog with a newer generation is refused.
"""

from __future__ import annotations

from pathlib import Path

from hasse.index import durable
from hasse.index.catalog.catalog import Catalog
from hasse.index.errors import DamagedIndexError

GENERATION = "generation"


def allow(folder: Path, catalog: Catalog, generation: int) -> None:
    """Let the catalog of an index go on to a generation.

    Raises:
        DamagedIndexError: it is newer already than it may be.
    """
    if not catalog.is_server:
        _refuse_newer(folder, generation - 1)
        durable.overwrite(folder / GENERATION, b"%019d\n" % generation)


def check(folder: Path, catalog: Catalog) -> None:
    """Refuse a catalog that joins a backup with the log of a newer generation.

    Raises:
        DamagedIndexError: it does.
    """
    if not catalog.is_server:
        _refuse_newer(folder, catalog.generation())  # first: a writer may go on meanwhile


def _refuse_newer(folder: Path, generation: int) -> None:
    try:
        allowed = int((folder / GENERATION).read_bytes())
    except (OSError, ValueError):  # an older version wrote the index, or it cannot be read
        return
    if generation > allowed:
        raise DamagedIndexError(
            f"the catalog of {folder} mixes a backup of generation {allowed} with a newer log, of "
            f"generation {generation}: the backup was copied over a folder in use",
            "stop what uses the index, remove the whole folder, and copy the backup again",
        )
