"""The file INDEX/generation: the newest generation that the catalog may hold.

SQLite keeps a catalog in two files, the database and its log. A backup that is copied over a folder
in use replaces the database and leaves the newer log, and SQLite would join both. So a transaction
writes its generation to this file before it commits. A backup replaces this file too, and a catalog
with a newer generation is refused.
"""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sql

from hasse.index import durable
from hasse.index.catalog.database_errors import sqlite_path
from hasse.index.errors import DamagedIndexError

GENERATION = "generation"


def allow(url: sql.URL, generation: int) -> None:
    """Allow the catalog this generation; a catalog on a server has no such file.

    Raises:
        DamagedIndexError: its generation is newer than it may be.
    """
    if url.get_backend_name() == "sqlite":
        refuse_newer(url, generation - 1)
        durable.overwrite(_file_of(url), b"%019d\n" % generation)


def refuse_newer(url: sql.URL, generation: int) -> None:
    """Refuse a catalog that joins a backup with a newer log.

    Raises:
        DamagedIndexError: its generation is newer than it may be.
    """
    if url.get_backend_name() != "sqlite":
        return
    try:
        allowed = int(_file_of(url).read_bytes())
    except (OSError, ValueError):  # an older version wrote the index, or it cannot be read
        return
    if generation > allowed:
        raise DamagedIndexError(
            f"the catalog of {sqlite_path(url).parent} mixes a backup of generation {allowed} with "
            f"a newer log, of generation {generation}: the backup was copied over a folder in use",
            "stop what uses the index, remove the whole folder, and copy the backup again",
        )


def _file_of(url: sql.URL) -> Path:
    return sqlite_path(url).with_name(GENERATION)
