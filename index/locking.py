"""The locks of an index: of its folder, or of its catalog where that is a server.

A file is locked for one machine. Where the catalog is in PostgreSQL, all machines see its advisory
locks. They are named by the schema of the catalog and by the file that is locked otherwise.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import sqlalchemy as sql
from sqlalchemy import Connection

from hasse.index import durable
from hasse.index.catalog.database import Database
from hasse.index.errors import CatalogUnreachableError, IndexLockedError, ReadOnlyIndexError

_KEY = "hashtext(current_schema() || ' hasse'), hashtext(:name)"
_TRY = sql.text(f"SELECT pg_try_advisory_lock({_KEY})")
_UNLOCK = sql.text(f"SELECT pg_advisory_unlock({_KEY})")
_PAUSE = 0.02  # seconds between two tries


@contextmanager
def locked(
    folder: Path, catalog: Database, name: str, timeout: float, doing: str = "writing to"
) -> Iterator[None]:
    """Hold the lock of that name of an index, waiting at most `timeout` seconds for it.

    It is released when the process ends, however it ends. A server's lock belongs to the connection
    that all write transactions of this thread use while the block runs: where it breaks, nothing
    more is committed.

    Raises:
        IndexLockedError: another process held it for all that time.
        ReadOnlyIndexError: the folder cannot be written.
        CatalogUnreachableError: the server does not answer.
    """
    if not catalog.is_server:
        with durable.locked(folder / name, timeout, doing):
            yield
        return
    if folder.exists() and not os.access(folder, os.W_OK):
        raise ReadOnlyIndexError(
            f"the index {folder} cannot be written: change the permissions of the folder, or write "
            "to a copy of it"
        )
    with catalog.session() as connection:
        deadline = time.monotonic() + timeout
        while not _ask(catalog, _TRY, name):
            if time.monotonic() >= deadline:
                raise IndexLockedError(
                    f"another process is {doing} the index {folder}: wait for it to end, or stop "
                    "it, and repeat"
                )
            time.sleep(_PAUSE)
        try:
            yield
        finally:
            _release(catalog, connection, name)


def _ask(catalog: Database, statement: sql.TextClause, name: str) -> bool:
    with catalog.creating() as connection:
        return bool(connection.execute(statement, {"name": name}).scalar_one())


def _release(catalog: Database, connection: Connection, name: str) -> None:
    with suppress(CatalogUnreachableError):
        if _ask(catalog, _UNLOCK, name):
            return
    # What the server may still hold must not go back to the pool.
    if not connection.invalidated:
        connection.invalidate()
