from __future__ import annotations

import errno
import os
import resource
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sql
from sqlalchemy.exc import DBAPIError, InternalError, OperationalError, ProgrammingError

from hasse.index.catalog import database_errors
from hasse.index.catalog.catalog import Catalog
from hasse.index.catalog.database import sqlite_url
from hasse.index.catalog.database_errors import to_index_error
from hasse.index.creation import open_catalog
from hasse.index.errors import (
    CatalogUnreachableError,
    DamagedIndexError,
    DiskFullError,
    HasseIndexError,
    IndexLockedError,
    ReadOnlyIndexError,
)
from hasse.index.search.query import Query
from hasse.index.store import Index
from hasse.index.verify import verify
from tests.index.samples import images, model, small_index

# Of the files of a small index, what SQLite shares between processes is the largest: 32 kB.
NO_ROOM = 20_000
SERVER = sql.make_url("postgresql+psycopg://user:secret@host/mine")


@contextmanager
def limited(what: int, most: int) -> Iterator[None]:
    before, hard = resource.getrlimit(what)
    resource.setrlimit(what, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(what, (before, hard))


def look(folder: Path) -> None:
    Index.open(folder, threads=1).close()


def create(folder: Path) -> None:
    Index.create(folder, model(), threads=1).close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    small_index(tmp_path / "i ?#").close()
    return tmp_path / "i ?#"


@pytest.fixture
def unopened(folder: Path) -> Path:
    """An index that SQLite cannot open, and does not say why."""
    (folder / "catalog.db-wal").mkdir()
    return folder


@pytest.mark.parametrize("work", [look, verify, create])
def test_index_on_a_full_disk_is_said_to_lack_room_and_not_to_be_damaged(
    work: Callable[[Path], object], folder: Path
) -> None:
    with (
        limited(resource.RLIMIT_FSIZE, NO_ROOM),
        pytest.raises(DiskFullError, match=r"no room left on the disk of .*i \?#: .*free some"),
    ):
        work(folder)
    assert verify(folder).ok


@pytest.mark.parametrize(
    ("size", "kind", "said"),
    [
        (NO_ROOM, DiskFullError, r"no room left on the disk of .*new: .*free some"),
        (0, DiskFullError, r"no room left on the disk of .*new: .*free some"),
        (100, CatalogUnreachableError, r"catalog\.db does not answer \(disk I/O .* has room"),
    ],
)
def test_index_that_finds_no_room_for_its_catalog_is_not_made(
    size: int, kind: type[HasseIndexError], said: str, tmp_path: Path
) -> None:
    with limited(resource.RLIMIT_FSIZE, size), pytest.raises(kind, match=said):
        create(tmp_path / "new")
    create(tmp_path / "new")


def test_change_that_finds_no_room_in_the_catalog_is_not_made(folder: Path) -> None:
    with Index.open(folder, threads=1) as index:
        with closing(index.catalog._writer.raw_connection()) as connection:
            connection.cursor().execute("PRAGMA max_page_count = 1")
        with pytest.raises(DiskFullError, match=r"no room left on the disk of .*i \?#"):
            index.add(images(range(100, 1100)), np.zeros((1000, 16)))
        assert index.generation == 1
    assert verify(folder).ok


@pytest.mark.parametrize("left", [0, 1, 2])
def test_catalog_is_not_damaged_where_no_more_files_can_be_opened(left: int, folder: Path) -> None:
    with closing(open_catalog(folder)) as catalog:
        catalog.close()
        taken: list[int] = []
        with limited(resource.RLIMIT_NOFILE, len(list(Path("/proc/self/fd").iterdir())) + 8):
            try:
                with suppress(OSError):
                    while True:
                        taken.append(os.open(os.devnull, os.O_RDONLY))
                for _ in range(left):
                    os.close(taken.pop())
                said = r"catalog\.db is not damaged, .*\(Too many open files\): raise the limit"
                with pytest.raises(CatalogUnreachableError, match=said):
                    catalog.generation()
                with pytest.raises(CatalogUnreachableError, match=said):
                    catalog.images([1])
            finally:
                for descriptor in taken:
                    os.close(descriptor)
        assert catalog.generation() == 1


@pytest.mark.parametrize("hidden", ["catalog.db", "catalog.db-wal", "catalog.db-shm"])
def test_catalog_that_may_not_be_read_is_not_damaged(
    hidden: str, unopened: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (unopened / hidden).touch()
    # Tests may run as root, whom permissions do not stop.
    monkeypatch.setattr(os, "access", lambda path, how: how == os.F_OK or path.name != hidden)
    with pytest.raises(
        CatalogUnreachableError, match=r"not damaged, .*\(Permission denied\): let this user read"
    ):
        look(unopened)


def test_catalog_in_a_folder_that_may_not_be_written_is_named_by_its_path(
    unopened: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda _path, how: how == os.F_OK)
    with pytest.raises(
        CatalogUnreachableError, match=r"the catalog /.*/i \?#/catalog\.db is not damaged"
    ):
        look(unopened)


@pytest.mark.parametrize(
    ("obstacle", "kind", "said"),
    [
        (errno.ENOSPC, DiskFullError, r"no room left on the disk of .*i \?#: "),
        (errno.EDQUOT, DiskFullError, r"no room left on the disk of .*i \?#: "),
        (errno.EROFS, CatalogUnreachableError, r"\(Read-only file system\): let this user"),
        (errno.ESTALE, CatalogUnreachableError, r"\(Stale file handle\): mend that"),
        (None, CatalogUnreachableError, r"does not answer \(unable to open .*: look whether"),
    ],
)
def test_catalog_that_cannot_be_opened_gives_the_reason_of_the_system(
    obstacle: int | None,
    kind: type[HasseIndexError],
    said: str,
    unopened: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if obstacle is not None:

        def refused(**_: object) -> None:
            raise OSError(obstacle, os.strerror(obstacle))

        monkeypatch.setattr(database_errors, "TemporaryFile", refused)
    before = sorted(unopened.iterdir())
    with pytest.raises(kind, match=said):
        look(unopened)
    assert sorted(unopened.iterdir()) == before


def test_catalog_that_another_program_locks_is_reported_to_readers_and_writers(
    folder: Path,
) -> None:
    said = r"another program locks .*catalog\.db \(database is locked\): wait for it"
    with (
        closing(Catalog(sqlite_url(folder), lock_seconds=0.0)) as catalog,
        closing(sqlite3.connect(folder / "catalog.db", isolation_level=None)) as other,
    ):
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(IndexLockedError, match=said), catalog.writing():
            pass
        other.execute("ROLLBACK")
        with catalog.writing():
            pass
        catalog.close()
        other.execute("PRAGMA locking_mode=EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(IndexLockedError, match=said):
            catalog.generation()


def test_more_readers_at_a_time_than_there_are_connections_are_no_damage(folder: Path) -> None:
    with closing(open_catalog(folder)) as catalog:
        catalog._reader.dispose()
        few = {"pool_size": 1, "max_overflow": 0, "pool_timeout": 0}
        catalog._reader = sql.create_engine(catalog.url, **few)
        with (
            catalog.reading(),
            pytest.raises(CatalogUnreachableError, match=r"too many connections .*try again"),
        ):
            catalog.generation()


def test_catalog_that_may_not_be_written_is_searched_and_refuses_changes(folder: Path) -> None:
    with Index.open(folder, threads=1) as index:
        with closing(index.catalog._writer.raw_connection()) as connection:
            connection.cursor().execute("PRAGMA query_only = ON")
        said = r"catalog\.db cannot be written \(attempt to write a readonly .*: change the perm"
        with pytest.raises(ReadOnlyIndexError, match=said):
            index.remove([1])
        assert index.search(Query("image", 1), np.ones(16)).searched == 12


def test_damage_that_a_change_meets_is_named_with_the_remedy(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "catalog.db")) as other:
        (page,) = other.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'captions'"
        ).fetchone()
        (size,) = other.execute("PRAGMA page_size").fetchone()
    with (folder / "catalog.db").open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * 8)
    with closing(open_catalog(folder)) as catalog:
        said = r"catalog\.db cannot be read \(database disk image is malformed\): restore it"
        with pytest.raises(DamagedIndexError, match=said), catalog.writing() as connection:
            connection.exec_driver_sql("DELETE FROM captions")


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (sqlite3.SQLITE_CORRUPT, DamagedIndexError),
        (sqlite3.SQLITE_CORRUPT_INDEX, DamagedIndexError),
        (sqlite3.SQLITE_NOTADB, DamagedIndexError),
        (sqlite3.SQLITE_IOERR_READ, DamagedIndexError),
        (sqlite3.SQLITE_IOERR_SHORT_READ, DamagedIndexError),
        (sqlite3.SQLITE_IOERR_CORRUPTFS, DamagedIndexError),
        (sqlite3.SQLITE_IOERR_FSYNC, CatalogUnreachableError),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, IndexLockedError),
        (sqlite3.SQLITE_LOCKED, IndexLockedError),
        (sqlite3.SQLITE_READONLY_RECOVERY, ReadOnlyIndexError),
        (sqlite3.SQLITE_PERM, ReadOnlyIndexError),
    ],
)
def test_only_what_sqlite_reads_wrong_is_damage(
    code: int, kind: type[HasseIndexError], tmp_path: Path
) -> None:
    said = sqlite3.OperationalError("it says so")
    said.sqlite_errorcode = code
    told = to_index_error(sql.make_url(f"sqlite:///{tmp_path}/catalog.db"), sqlite3, said)
    assert type(told) is kind
    assert "catalog.db" in str(told)
    assert "(it says so)" in str(told)


class Said(Exception):
    """What the driver of a server raises."""

    def __init__(self, sqlstate: str | None) -> None:
        super().__init__("the server\nsays so")
        self.sqlstate = sqlstate


class Driver:
    """The driver: its module, as far as it is asked."""

    OperationalError = Said


@pytest.mark.parametrize(
    ("wrapped", "state", "kind", "remedy"),
    [
        (OperationalError, "53100", DiskFullError, "free some space"),
        (ProgrammingError, "42501", CatalogUnreachableError, "grant that role the tables"),
        (InternalError, "25006", ReadOnlyIndexError, "name the database that takes changes"),
        (InternalError, "XX001", DamagedIndexError, "restore it from a backup"),
        (InternalError, "XX002", DamagedIndexError, "restore it from a backup"),
        (OperationalError, "57P01", CatalogUnreachableError, "start that database"),
        (OperationalError, None, CatalogUnreachableError, "start that database"),
        (None, None, CatalogUnreachableError, "start that database"),
    ],
)
def test_server_that_refuses_is_named_with_the_reason_and_the_remedy(
    wrapped: type[DBAPIError] | None, state: str | None, kind: type[HasseIndexError], remedy: str
) -> None:
    said = Said(state)
    error = said if wrapped is None else wrapped("SELECT", None, said)
    told = to_index_error(SERVER, Driver, error)
    assert type(told) is kind
    assert remedy in str(told)
    assert "postgresql+psycopg://user:***@host/mine" in str(told)
    assert kind is DiskFullError or "(the server says so)" in str(told)


@pytest.mark.parametrize("url", [SERVER, sql.make_url("sqlite:////i/catalog.db")])
def test_fault_of_what_was_asked_is_no_translated(url: sql.URL) -> None:
    error = ProgrammingError("SELECT", None, Exception("no such table"))
    assert to_index_error(url, Driver, error) is None
