"""The database that holds a catalog: where it is, its connections and its transactions.

SQLite (the default) writes ahead and syncs fully; the URL may name PostgreSQL instead.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import quote

import sqlalchemy as sql
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import NoSuchModuleError, SQLAlchemyError

from index.catalog.database_errors import path_of, translated
from index.catalog.database_file import OpenedFile
from index.catalog.schema import META
from index.errors import DamagedIndexError, NotAnIndexError

CATALOG = "catalog.db"
CATALOG_URL = "catalog.url"

# SQLite's cache of each connection, negative in KiB. The rows of a batch of searches lie on more
# pages than its default of 2 MB holds.
_CACHE = -16_384
# Limits on waiting for a PostgreSQL server: for a connection and for a sign that it is still there.
_SERVER_TIMEOUTS = {
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,  # milliseconds
}
LOCK_SECONDS = 10.0  # that a statement waits for a lock of another connection


class Lookup(NamedTuple):
    """A statement about a list of ids, as the driver takes it.

    It needs no transaction, and it runs when a search has just filled the processor's caches with
    rows. What SQLAlchemy does for a statement takes longer then than SQLite, and is left out.
    """

    statement: str
    places: int | None  # that the ids are given for; None where the parameter has a name

    @classmethod
    def compiled(cls, by_database: Mapping[str, sql.Select[Any]], dialect: sql.Dialect) -> Self:
        """Return the one of some statements that is for a database; see `lookups`."""
        found: Any = by_database[dialect.name].compile(dialect=dialect)
        return cls(str(found), len(found.positiontup) if found.positional else None)

    def parameters(self, ids: str) -> dict[str, str] | tuple[str, ...]:
        """Return what the statement is executed with, for a list of ids in JSON."""
        return {"ids": ids} if self.places is None else (ids,) * self.places


class Database:
    """Connections to one database. Reads and writes have a connection pool each."""

    def __init__(self, url: str | sql.URL, lock_seconds: float = LOCK_SECONDS) -> None:
        """Name the database; the first statement connects to it.

        Raises:
            NotAnIndexError: a database of this kind is not supported, or its driver is missing.
        """
        self.url = sql.make_url(url)
        self._file: OpenedFile | None = None
        if self.url.get_backend_name() == "sqlite":
            self._file = OpenedFile(path_of(self.url))
            self._writer = _file_engine(self.url, "BEGIN IMMEDIATE", self._file, lock_seconds)
            self._reader = _file_engine(self.url, "BEGIN", self._file, lock_seconds)
        else:
            self._writer = _server_engine(self.url, lock_seconds)
            self._reader = _server_engine(self.url, lock_seconds)
        self.dialect = self._reader.dialect
        self._driver: Any = self.dialect.loaded_dbapi

    def close(self) -> None:
        """Close every connection."""
        self._reader.dispose()
        self._writer.dispose()

    def enable_write_ahead_log(self) -> None:
        """Let reads go on during a write: SQLite then keeps a log beside the database."""
        if self._file is not None:
            with self._errors_translated(), closing(self._writer.raw_connection()) as connection:
                connection.cursor().execute("PRAGMA journal_mode=WAL")

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Open a read transaction: everything read in it belongs to one instant."""
        with self._damage_named(), self._reader.begin() as connection:
            yield connection

    @contextmanager
    def creating(self) -> Iterator[Connection]:
        """Open a write transaction in a database that may have none of the tables yet."""
        with self._errors_translated(), self._writer.begin() as connection:
            yield connection
            self.check_file()

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Open the one write transaction; it is committed, durably, when the block ends well.

        Raises:
            CatalogUnreachableError: the database does not answer, or its file was replaced. Call
                `settle` to find out whether the transaction was committed.
            DiskFullError, IndexLockedError, ReadOnlyIndexError: nothing was committed.
            DamagedIndexError: the database is not what was written.
        """
        with self.creating() as connection:
            # Lock before anything is read: the first SELECT fixes the instant of all others.
            if connection.dialect.name == "postgresql":
                connection.exec_driver_sql(f"LOCK TABLE {META.name} IN SHARE ROW EXCLUSIVE MODE")
            yield connection

    def settle(self) -> None:
        """Wait for a transaction that a server still commits for a writer that was cut off."""
        with self.writing():
            pass

    def fetch(self, lookup: Lookup, ids: str) -> tuple[Any, ...]:
        """Return the one row that a lookup finds for a list of ids in JSON."""
        with self._damage_named(), closing(self._reader.raw_connection()) as connection:
            cursor = connection.cursor()
            cursor.execute(lookup.statement, lookup.parameters(ids))
            row = cursor.fetchone()
            cursor.close()
        return tuple(row or ())

    def check_file(self) -> None:
        """Refuse to go on with a SQLite file that was replaced (CatalogUnreachableError)."""
        if self._file is not None:
            self._file.check()

    @contextmanager
    def _damage_named(self) -> Iterator[None]:
        # A database that was changed from outside makes drivers raise all of these.
        try:
            with self._errors_translated():
                yield
        except (SQLAlchemyError, self._driver.Error, UnicodeDecodeError) as error:
            said = getattr(error, "orig", None) or error
            raise DamagedIndexError(f"{self.url.database} cannot be read ({said})") from error

    @contextmanager
    def _errors_translated(self) -> Iterator[None]:
        try:
            yield
        except (SQLAlchemyError, self._driver.Error) as error:
            if (known := translated(self.url, self._driver, error)) is None:
                raise
            raise known from error


def catalog_url(folder: Path) -> sql.URL:
    """Return where the catalog of an index is: as the file `catalog.url` says, if there is one."""
    pointer = folder / CATALOG_URL
    if not pointer.is_file():
        return sqlite_url(folder)
    try:
        url = sql.make_url(pointer.read_text(encoding="utf-8").strip())
    except (sql.exc.ArgumentError, ValueError):
        url = None
    if url is None or url.get_backend_name() == "sqlite":  # a SQLite catalog is always CATALOG
        raise NotAnIndexError(
            f"{pointer} holds no address of a database server: write one line, such as "
            "postgresql+psycopg://user@host/database, or remove it"
        )
    return url


def sqlite_url(folder: Path) -> sql.URL:
    """Return where the catalog of an index is by default.

    In a folder that cannot be written SQLite can keep no log, and needs none.
    """
    path = folder / CATALOG
    if path.exists() and not os.access(folder, os.W_OK):
        waiting = path.with_name(CATALOG + "-wal").exists()
        query = {"uri": "true", "mode": "ro", "immutable": "0" if waiting else "1"}
        return sql.URL.create("sqlite", database=f"file:{quote(str(path))}", query=query)
    return sql.URL.create("sqlite", database=str(path))


def _file_engine(url: sql.URL, begin: str, file: OpenedFile, lock_seconds: float) -> Engine:
    engine = sql.create_engine(url)

    @sql.event.listens_for(engine, "do_connect")
    def check(*_: Any) -> None:
        file.check()

    @sql.event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: Any) -> None:
        file.remember()
        # The driver's own transactions start late and leave DDL outside; ours start at begin.
        connection.isolation_level = None
        cursor = connection.cursor()
        settings = (
            "synchronous=FULL",
            "foreign_keys=ON",
            f"busy_timeout={round(1000 * lock_seconds)}",
            f"cache_size={_CACHE}",
        )
        for pragma in settings:
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @sql.event.listens_for(engine, "begin")
    def start(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    return engine


def _server_engine(url: sql.URL, lock_seconds: float) -> Engine:
    if url.get_backend_name() != "postgresql":
        raise NotAnIndexError(
            f"{url.render_as_string()} is no database for a catalog: write its address as "
            "postgresql+psycopg://user@host/database"
        )
    try:
        engine = sql.create_engine(
            url,
            isolation_level="REPEATABLE READ",  # all queries of a transaction see one instant
            pool_pre_ping=True,  # a connection that broke while idle is replaced
            connect_args=_SERVER_TIMEOUTS,
        )
    except (ModuleNotFoundError, NoSuchModuleError) as error:
        raise NotAnIndexError(
            f"the catalog {url.render_as_string()} cannot be reached from here ({error}): install "
            'its driver with pip install "psycopg[binary]", or correct its address'
        ) from None

    @sql.event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: Any) -> None:
        connection.cursor().execute(f"SET lock_timeout = '{round(1000 * lock_seconds)}ms'")
        connection.commit()

    return engine
