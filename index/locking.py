"""The locks of an index: of its folder, or of its catalog where that is a server.

A locked file excludes the processes of one machine. Where the catalog is in PostgreSQL, an advisory
lock excludes those of all machines. It is named by the schema of the catalog and by the file that
would be locked otherwise.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeAlias

import sqlalchemy as sql

from hasse.index.catalog.database import Database
from hasse.index.errors import CatalogUnreachableError, IndexLockedError, ReadOnlyIndexError

Try: TypeAlias = Callable[[], bool]  # takes the lock, unless another process holds it

_KEY = "hashtext(current_schema() || ' hasse'), hashtext(:name)"
_TRY = sql.text(f"SELECT pg_try_advisory_lock({_KEY})")
_UNLOCK = sql.text(f"SELECT pg_advisory_unlock({_KEY})")
_PAUSE = 0.02  # seconds between two tries


@contextmanager
def locked(
    folder: Path, catalog: Database, name: str, timeout: float, doing: str = "writing to"
) -> Iterator[None]:
    """Hold the lock of that name of an index; wait at most `timeout` seconds for it.

    It is released when the process ends, however it ends. A server's lock belongs to the connection
    that all write transactions of this thread use while the block runs: where it breaks, nothing
    more is committed.

    Raises:
        IndexLockedError: another process held it for all that time.
        ReadOnlyIndexError: the folder cannot be written.
        CatalogUnreachableError: the server does not answer.
    """
    lock = _advisory_lock(folder, catalog, name) if catalog.is_server else _file_lock(folder, name)
    with lock as take:
        deadline = time.monotonic() + timeout
        while not take():
            if time.monotonic() >= deadline:
                raise IndexLockedError(
                    f"another process is {doing} the index {folder}: wait for it to end, or stop "
                    "it, and repeat"
                )
            time.sleep(_PAUSE)
        yield


@contextmanager
def _file_lock(folder: Path, name: str) -> Iterator[Try]:
    try:
        file = (folder / name).open("a+b")
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise _read_only(folder, f" ({error.strerror})") from error
        raise

    def take() -> bool:
        with suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        return False

    with file:
        yield take


@contextmanager
def _advisory_lock(folder: Path, catalog: Database, name: str) -> Iterator[Try]:
    if folder.exists() and not os.access(folder, os.W_OK):
        raise _read_only(folder)
    taken = False

    def ask(statement: sql.TextClause) -> bool:
        with catalog.creating() as connection:
            return bool(connection.execute(statement, {"name": name}).scalar_one())

    def take() -> bool:
        nonlocal taken
        taken = ask(_TRY)
        return taken

    with catalog.session() as session:
        try:
            yield take
        finally:
            released = not taken
            with suppress(CatalogUnreachableError):
                released = released or ask(_UNLOCK)
            # A lock that the server may still hold must not go back to the pool.
            if not released and not session.invalidated:
                session.invalidate()


def _read_only(folder: Path, reason: str = "") -> ReadOnlyIndexError:
    return ReadOnlyIndexError(
        f"the index {folder} cannot be written{reason}: change the permissions of the folder, or "
        "write to a copy of it"
    )
