"""Copies a catalog as of one instant, from one kind of database to another too."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import sqlalchemy as sql
from sqlalchemy import Connection

from hasse.index.catalog import mutations
from hasse.index.catalog.catalog import Catalog
from hasse.index.catalog.database import CATALOG, sqlite_url
from hasse.index.catalog.integrity import damaged_rows, present_tables
from hasse.index.catalog.schema import IDS_PER_STATEMENT, META
from hasse.index.errors import DamagedIndexError


@dataclass(frozen=True, slots=True)
class ReadTransaction:
    """A read transaction of a catalog, in which all reads see one generation."""

    generation: int
    _connection: Connection

    @classmethod
    @contextmanager
    def begin(cls, catalog: Catalog) -> Iterator[Self]:
        """Begin the transaction; it ends with the block."""
        with catalog.reading() as connection:
            yield cls(connection.execute(sql.select(META.c.generation)).scalar_one(), connection)

    def copy(self, folder: Path) -> Path:
        """Write the catalog into a folder as a SQLite database of one file, and check its rows.

        Raises:
            DamagedIndexError: a row was changed.
        """
        path = folder / CATALOG
        if self._connection.dialect.name == "sqlite":
            with closing(sqlite3.connect(path)) as target:
                self._connection.connection.driver_connection.backup(target)  # type: ignore[union-attr]
                target.execute("PRAGMA journal_mode=DELETE")
        with closing(Catalog(sqlite_url(folder))) as copy:
            if self._connection.dialect.name != "sqlite":
                with copy.creating() as connection:
                    copy_rows(self._connection, connection)
            if (fault := next(damaged_rows(copy), None)) is not None:
                raise DamagedIndexError(f"{self._connection.engine.url.database}: {fault}")
        return path


def copy_rows(source: Connection, target: Connection) -> None:
    """Make the tables in another database, and copy all rows.

    Raises:
        NotAnIndexError: another program has tables of these names.
    """
    mutations.make_tables(target)
    for table in present_tables(source):
        rows = source.execute(sql.select(table), execution_options={"yield_per": IDS_PER_STATEMENT})
        for batch in rows.mappings().partitions():
            target.execute(table.insert(), [dict(row) for row in batch])
