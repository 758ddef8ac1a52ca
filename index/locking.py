"""The locks of an index: on a file of its folder, or on its catalog if that is a server.

A lock on a file excludes the processes of one machine. With a catalog in PostgreSQL, an advisory
lock excludes those of all machines. Its key is the schema of the catalog and the name of the file
that would be locked otherwise.
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

TryLock: TypeAlias = Callable[[], bool]  # returns False if another process holds the lock

_KEY = "hashtext(current_schema() || ' hasse'), hashtext(:name)"
_TRY = sql.text(f"SELECT pg_try_advisory_lock({_KEY})")
_UNLOCK = sql.text(f"SELECT pg_advisory_unlock({_KEY})")
_PAUSE = 0.02  # seconds between two tries


@contextmanager
def locked(
    folder: Path, catalog: Database, name: str, timeout: float, doing: str = "writing to"
) -> Iterator[None]:
    """Hold the lock `name` of an index; wait at most `timeout` seconds for it.

    The lock is released when the process ends, also after a crash. A server's lock belongs to the
    connection that all write transactions of this thread use while the block runs. If the
    connection breaks, nothing more is committed.

    Raises:
        IndexLockedError: another process held the lock until the timeout.
        ReadOnlyIndexError: the folder cannot be written.
        CatalogUnreachableError: the server does not answer.
    """
    lock = _advisory_lock(folder, catalog, name) if catalog.is_server else _file_lock(folder, name)
    with lock as try_lock:
        deadline = time.monotonic() + timeout
        while not try_lock():
            if time.monotonic() >= deadline:
                raise IndexLockedError(
                    f"another process is {doing} the index {folder}: wait for it to end, or stop "
                    "it, and repeat"
                )
            time.sleep(_PAUSE)
        yield


@contextmanager
def _file_lock(folder: Path, name: str) -> Iterator[TryLock]:
    try:
        file = (folder / name).open("a+b")
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise _read_only(folder, f" ({error.strerror})") from error
        raise

    def try_lock() -> bool:
        with suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        return False

    with file:
        yield try_lock


@contextmanager
def _advisory_lock(folder: Path, catalog: Database, name: str) -> Iterator[TryLock]:
    if folder.exists() and not os.access(folder, os.W_OK):
        raise _read_only(folder)
    is_held = False

    def execute(statement: sql.TextClause) -> bool:
        with catalog.creating() as connection:
            return bool(connection.execute(statement, {"name": name}).scalar_one())

    def try_lock() -> bool:
        nonlocal is_held
        is_held = execute(_TRY)
        return is_held

    with catalog.session() as session:
        try:
            yield try_lock
        finally:
            released = not is_held
            with suppress(CatalogUnreachableError):
                released = released or execute(_UNLOCK)
            # A connection whose lock the server may still hold must not go back to the pool.
            if not released and not session.invalidated:
                session.invalidate()


def _read_only(folder: Path, reason: str = "") -> ReadOnlyIndexError:
    return ReadOnlyIndexError(
        f"the index {folder} cannot be written{reason}: change the permissions of the folder, or "
        "write to a copy of it"
    )
