"""The database that holds a catalog: where it is, its connections and its transactions.

SQLite (the default) writes ahead and syncs fully; the URL may name PostgreSQL instead.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote

import sqlalchemy as sql
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import NoSuchModuleError, SQLAlchemyError

from hasse.index.catalog.database_errors import sqlite_path, to_index_error
from hasse.index.catalog.database_file import OpenedFile
from hasse.index.catalog.schema import META
from hasse.index.errors import CatalogUnreachableError, DamagedIndexError, NotAnIndexError
from hasse.models.errors import pip_install

ErrorTranslator: TypeAlias = Callable[[], AbstractContextManager[None]]

CATALOG = "catalog.db"
CATALOG_URL = "catalog.url"

# SQLite's cache of each connection, negative in KiB. The rows of a batch of searches lie on more
# pages than its default of 2 MB holds.
_CACHE = -16_384
_VOCABULARY = (
    "CREATE VIRTUAL TABLE IF NOT EXISTS temp.documents_vocabulary "
    "USING fts5vocab(main, documents_words, 'col')"
)
_BY_INDEX = "SET LOCAL enable_seqscan = off; SET LOCAL enable_nestloop = off"
# Limits on waiting for a PostgreSQL server: for a connection and for a sign that it is still there.
_SERVER_TIMEOUTS = {
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,  # milliseconds
}
# Advisory locks belong to a database; the schema is part of the key, since each may hold a catalog.
_SPACE = "hashtext(current_schema() || ' hasse generations')"
_SHARE = sql.text(f"SELECT pg_advisory_lock_shared({_SPACE}, :number)")
_UNSHARE = sql.text(f"SELECT pg_advisory_unlock_shared({_SPACE}, :number)")
_SMALLEST = sql.text(
    "SELECT min(objid::bigint) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 "
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
    "AND classid = hashtext(current_schema() || ' hasse generations')::oid"
)
LOCK_SECONDS = 10.0  # how long a statement waits for a lock of another connection


class _Statements(threading.local):
    """Number of reading statements that a thread has sent to databases, for `Server-Timing`."""

    sent = 0


STATEMENTS = _Statements()


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
            self._file = OpenedFile(sqlite_path(self.url))
            self._writer = _file_engine(self.url, "BEGIN IMMEDIATE", self._file, lock_seconds)
            self._reader = _file_engine(self.url, "BEGIN", self._file, lock_seconds)
        else:
            self._writer = _server_engine(self.url, lock_seconds)
            self._reader = _server_engine(self.url, lock_seconds)
        sql.event.listen(self._reader, "after_cursor_execute", _count_statement)
        self.dialect = self._reader.dialect
        self._driver: Any = self.dialect.loaded_dbapi
        self._session = threading.local()
        self.shared_locks = SharedLocks(self._writer, self._translate_errors)

    def close(self) -> None:
        """Close every connection."""
        self.shared_locks.close()
        self._reader.dispose()
        self._writer.dispose()

    def enable_write_ahead_log(self) -> None:
        """Let reads go on during a write: SQLite then keeps a log beside the database."""
        if self._file is not None:
            with self._translate_errors(), closing(self._writer.raw_connection()) as connection:
                connection.cursor().execute("PRAGMA journal_mode=WAL")

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Open a read transaction, in which all reads see one instant."""
        with self._report_damage(), self._reader.begin() as connection:
            yield connection

    @contextmanager
    def searching(self) -> Iterator[Connection]:
        """Open a read transaction whose statements use indexes, whatever the server's statistics.

        A server that has not analysed its tables yet, or that guesses, would read whole tables, or
        compare each row of one list with each of another.
        """
        with self.reading() as connection:
            if self.is_server:
                connection.exec_driver_sql(_BY_INDEX)
            yield connection

    @contextmanager
    def creating(self) -> Iterator[Connection]:
        """Open a write transaction in a database that may have none of the tables yet."""
        with self.session() as connection, self._translate_errors(), connection.begin():
            yield connection
            self.check_file()

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Open the one write transaction; a block that ends without an error commits it durably.

        Raises:
            CatalogUnreachableError: the database does not answer, or its file was replaced. Call
                `settle` to find out whether the transaction was committed.
            DiskFullError, IndexLockedError, ReadOnlyIndexError: nothing was committed.
            DamagedIndexError: the database was changed from outside.
        """
        with self.creating() as connection:
            # Lock before anything is read: the first SELECT fixes the instant of all others.
            if connection.dialect.name == "postgresql":
                connection.exec_driver_sql(f"LOCK TABLE {META.name} IN SHARE ROW EXCLUSIVE MODE")
            yield connection

    @property
    def is_server(self) -> bool:
        """Whether the database is a server, which other machines may reach too."""
        return self._file is None

    @contextmanager
    def session(self) -> Iterator[Connection]:
        """Use one connection for all write transactions of this thread while the block runs.

        A lock of the session is lost with the connection, so that no transaction is committed
        without the lock.

        Raises:
            CatalogUnreachableError: the connection broke before.
        """
        current: Connection | None = getattr(self._session, "connection", None)
        if current is not None:
            if current.invalidated:
                raise CatalogUnreachableError(
                    f"the connection to the catalog {self.url.render_as_string()} broke, and with "
                    "it the lock of the writer: repeat"
                )
            yield current
            return
        with self._translate_errors():
            connection = self._writer.connect()
        with connection:
            self._session.connection = connection
            try:
                yield connection
            finally:
                self._session.connection = None

    def settle(self) -> None:
        """Wait until the server has ended the transaction of a writer that lost its connection."""
        with self.writing():
            pass

    def fetch(self, lookup: str, ids: str) -> tuple[Any, ...]:
        """Return the one row of a statement of `LOOKUPS`; `ids` is a JSON list.

        It goes to the driver directly. A search has just filled the processor's caches, so that
        SQLAlchemy's own work would take longer than the query. It needs no transaction.
        """
        with self._report_damage(), closing(self._reader.raw_connection()) as connection:
            cursor = connection.cursor()
            cursor.execute(lookup, {"ids": ids})
            STATEMENTS.sent += 1
            row = cursor.fetchone()
            cursor.close()
        return tuple(row or ())

    def check_file(self) -> None:
        """Refuse to go on with a SQLite file that was replaced (CatalogUnreachableError)."""
        if self._file is not None:
            self._file.check()

    @contextmanager
    def _report_damage(self) -> Iterator[None]:
        # A database that was changed from outside makes drivers raise all of these.
        try:
            with self._translate_errors():
                yield
        except (SQLAlchemyError, self._driver.Error, UnicodeDecodeError) as error:
            cause = getattr(error, "orig", None) or error
            raise DamagedIndexError(f"{self.url.database} cannot be read ({cause})") from error

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except (SQLAlchemyError, self._driver.Error) as error:
            if (index_error := to_index_error(self.url, self._driver, error)) is None:
                raise
            raise index_error from error


def _count_statement(*_: Any) -> None:
    STATEMENTS.sent += 1


class SharedLocks:
    """Shared locks on numbers, held by a server, so that all processes see the smallest number.

    They are advisory locks of one connection. The server releases them when the connection ends.
    After a broken connection the next call takes them again.
    """

    def __init__(self, engine: Engine, translate_errors: ErrorTranslator) -> None:
        self._engine, self._translate_errors = engine, translate_errors
        self._connection: Connection | None = None
        self._counts: Counter[int] = Counter()
        self._released: deque[int] = deque()
        self._renewed = 0.0
        self._lock = threading.Lock()

    def take(self, number: int) -> None:
        """Take the shared lock on a number.

        Raises:
            CatalogUnreachableError: the server does not answer.
        """
        with self._lock, self._translate_errors():
            self._counts[number] += 1
            try:
                if self._counts[number] == 1:
                    self._run(_SHARE, number)
            except BaseException:
                self._counts[number] -= 1
                raise

    def release(self, number: int) -> None:
        """Release the lock at the next `renew`; never blocks, so any code may call it."""
        self._released.append(number)

    def renew(self) -> None:
        """Release the locks that are due; once a second, check that the server holds the rest.

        Raises:
            CatalogUnreachableError: the server does not answer.
        """
        recent = not self._released and time.monotonic() < self._renewed + 1
        if self._connection is None or recent:
            return
        with self._lock, self._translate_errors():
            while self._released:
                number = self._released.popleft()
                self._counts[number] -= 1
                if not self._counts[number]:
                    del self._counts[number]
                    self._run(_UNSHARE, number)
            self._run(_SMALLEST, 0)
            self._renewed = time.monotonic()

    def smallest(self) -> int | None:
        """Return the smallest number that any process has locked, or None.

        Raises:
            CatalogUnreachableError: the server does not answer.
        """
        self._renewed = 0.0
        self.renew()
        with self._lock, self._translate_errors():
            number: int | None = self._run(_SMALLEST, 0)
            return number

    def close(self) -> None:
        """Release all locks."""
        with self._lock:
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _run(self, statement: sql.TextClause, number: int) -> Any:
        if self._connection is not None:
            try:
                return self._connection.execute(statement, {"number": number}).scalar()
            except sql.exc.DBAPIError as error:
                if not error.connection_invalidated:
                    raise
                self._connection = None
        connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        connection.detach()  # from the pool: its locks must end with it
        try:
            for locked in self._counts:
                connection.execute(_SHARE, {"number": locked})
            self._connection = connection
            return None if statement is _SHARE else self._run(statement, number)
        except BaseException:
            connection.close()
            self._connection = None
            raise


def catalog_url(folder: Path) -> sql.URL:
    """Return the address of the catalog of an index: that in `catalog.url`, if the file exists."""
    pointer = folder / CATALOG_URL
    if not pointer.is_file():
        return sqlite_url(folder)
    try:
        url = sql.make_url(pointer.read_text(encoding="utf-8-sig").strip())
    except (sql.exc.ArgumentError, ValueError):
        url = None
    if url is None or url.get_backend_name() == "sqlite":  # a SQLite catalog is always CATALOG
        raise NotAnIndexError(
            f"{pointer} holds no address of a database server: write one line, such as "
            "postgresql+psycopg://user@host/database, or remove it"
        )
    return url


def sqlite_url(folder: Path) -> sql.URL:
    """Return the default address of the catalog of an index.

    In a read-only folder SQLite cannot make a log, and needs none.
    """
    path = folder / CATALOG
    if path.exists() and not os.access(folder, os.W_OK):
        has_log = path.with_name(CATALOG + "-wal").exists()
        query = {"uri": "true", "mode": "ro", "immutable": "0" if has_log else "1"}
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
            f"busy_timeout={round(1000 * lock_seconds)}",  # first: the others wait for locks too
            "synchronous=FULL",
            "foreign_keys=ON",
            f"cache_size={_CACHE}",
        )
        for pragma in settings:
            cursor.execute(f"PRAGMA {pragma}")
        # The words of the text index; SQLite reads them from the index itself.
        cursor.execute(_VOCABULARY)
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
            f"its driver with {pip_install('postgresql')}, or correct its address"
        ) from None

    @sql.event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: Any) -> None:
        connection.cursor().execute(f"SET lock_timeout = '{round(1000 * lock_seconds)}ms'")
        connection.commit()

    return engine
