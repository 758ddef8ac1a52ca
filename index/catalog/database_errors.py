"""Translate errors of the catalog's database: disk full, no permission, no answer, lock or damage.

Only damage needs a backup. A full or inaccessible database is intact.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any
from urllib.parse import unquote

import sqlalchemy as sql
from sqlalchemy.exc import OperationalError

from hasse.index.errors import (
    FULL,
    CatalogUnreachableError,
    DamagedIndexError,
    HasseIndexError,
    IndexLockedError,
    ReadOnlyIndexError,
    disk_full,
)

# Error codes of SQLite; the lowest byte of a code is its general kind.
_CORRUPT = {
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_IOERR_READ,
    sqlite3.SQLITE_IOERR_SHORT_READ,
    sqlite3.SQLITE_IOERR_CORRUPTFS,
}
_LOCKED = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_UNWRITABLE = {sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY}
_UNOPENED = {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR}

_FILES = ("", "-wal", "-shm")  # suffixes of the files of one database

# Error codes of PostgreSQL.
_SERVER_FULL = "53100"
_SERVER_FORBIDS = "42501"
_SERVER_READS_ONLY = "25006"
_SERVER_CORRUPT = {"XX001", "XX002"}

_FORBIDDEN = "let this user read and write the folder of the index and the files in it"
_TOO_MANY = "raise the limit on open files with 'ulimit -n'"
_REMEDIES = {
    errno.EACCES: _FORBIDDEN,
    errno.EPERM: _FORBIDDEN,
    errno.EROFS: _FORBIDDEN,
    errno.EMFILE: _TOO_MANY,
    errno.ENFILE: _TOO_MANY,
}


def to_index_error(url: sql.URL, driver: Any, error: Exception) -> HasseIndexError | None:
    """Translate an error of SQLAlchemy or the driver; None if the index has no error for it."""
    cause = getattr(error, "orig", None) or error
    if isinstance(error, sql.exc.TimeoutError):
        return CatalogUnreachableError(
            f"too many connections to the catalog {url.render_as_string()} ({cause}): try again "
            "later"
        )
    if url.get_backend_name() == "sqlite":
        return _of_sqlite(url, cause)
    unreachable = isinstance(error, (OperationalError, driver.OperationalError))
    return _of_server(url, cause, unreachable=unreachable)


def _of_sqlite(url: sql.URL, cause: BaseException) -> HasseIndexError | None:
    code: int = getattr(cause, "sqlite_errorcode", 0)
    general = code & 0xFF
    path = sqlite_path(url)
    if general == sqlite3.SQLITE_FULL or code == sqlite3.SQLITE_IOERR_SHMSIZE:
        return disk_full(path.parent)
    if code in _CORRUPT or general in _CORRUPT:
        return DamagedIndexError(f"{path} cannot be read ({cause})")
    if general in _LOCKED:
        return IndexLockedError(
            f"another program locks {path} ({cause}): wait for it to end, or stop it, and repeat"
        )
    if general in _UNWRITABLE:
        return ReadOnlyIndexError(
            f"{path} cannot be written ({cause}): change the permissions of it and of its folder, "
            "or write to a copy of the index"
        )
    return _unopened(path, cause) if general in _UNOPENED else None


def _unopened(path: Path, cause: BaseException) -> HasseIndexError:
    obstacle = _probe_files(path)
    if obstacle is None:
        return CatalogUnreachableError(
            f"the catalog {path} does not answer ({cause}): look whether its disk works and has "
            "room, and repeat"
        )
    if obstacle.errno in FULL:
        return disk_full(path.parent)
    return CatalogUnreachableError(
        f"the catalog {path} is not damaged, but cannot be opened ({obstacle.strerror}): "
        + _REMEDIES.get(obstacle.errno or 0, "mend that and repeat")
    )


def _probe_files(path: Path) -> OSError | None:
    """Open files as SQLite does; return the system's error, which SQLite hides, or None."""
    for suffix in _FILES:
        # Closing a file here would release the locks that SQLite has on it.
        file = path.with_name(path.name + suffix)
        if os.access(file, os.F_OK) and not os.access(file, os.R_OK):
            return PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    try:
        with ExitStack() as stack:
            for _ in _FILES:
                probe = stack.enter_context(TemporaryFile(dir=path.parent, buffering=0))
                probe.write(b"\0")
    except OSError as error:
        return error
    return None


def sqlite_path(url: sql.URL) -> Path:
    """Return the path of a SQLite database."""
    database = url.database or ""
    return Path(unquote(database.removeprefix("file:")) if "uri" in url.query else database)


def _of_server(url: sql.URL, cause: BaseException, *, unreachable: bool) -> HasseIndexError | None:
    name, why = url.render_as_string(), " ".join(str(cause).split())
    state = getattr(cause, "sqlstate", None)
    if state == _SERVER_FULL:
        return disk_full(name)
    if state in _SERVER_CORRUPT:
        return DamagedIndexError(f"{name} cannot be read ({why})")
    if state == _SERVER_READS_ONLY:
        return ReadOnlyIndexError(
            f"the catalog {name} cannot be written ({why}): name the database that takes changes"
        )
    if state == _SERVER_FORBIDS:
        return CatalogUnreachableError(
            f"the role of the catalog {name} cannot read it ({why}): grant that role the tables, "
            "or correct the address"
        )
    if unreachable:
        return CatalogUnreachableError(
            f"the catalog {name} does not answer ({why}): start that database, or correct its "
            "address"
        )
    return None
