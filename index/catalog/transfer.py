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
from hasse.index.catalog.integrity import damaged_rows
from hasse.index.catalog.schema import IDS_PER_STATEMENT, META, SCHEMA
from hasse.index.errors import DamagedIndexError


@dataclass(frozen=True, slots=True)
class Instant:
    """A read transaction of a catalog: what is read in it belongs to one generation."""

    generation: int
    _connection: Connection

    @classmethod
    @contextmanager
    def of(cls, catalog: Catalog) -> Iterator[Self]:
        """Fix the instant: now."""
        with catalog.reading() as connection:
            yield cls(connection.execute(sql.select(META.c.generation)).scalar_one(), connection)

    def copy(self, folder: Path) -> Path:
        """Write the catalog as a SQLite database of one file into a folder, and check its rows.

        Raises:
            DamagedIndexError: a row is not what was written.
        """
        path = folder / CATALOG
        if self._connection.dialect.name == "sqlite":
            with closing(sqlite3.connect(path)) as target:
                self._connection.connection.driver_connection.backup(target)  # type: ignore[union-attr]
                target.execute("PRAGMA journal_mode=DELETE")
        with closing(Catalog(sqlite_url(folder))) as copied:
            if self._connection.dialect.name != "sqlite":
                with copied.creating() as connection:
                    copy_rows(self._connection, connection)
            if (fault := next(damaged_rows(copied), None)) is not None:
                raise DamagedIndexError(f"{self._connection.engine.url.database}: {fault}")
        return path


def copy_rows(source: Connection, target: Connection) -> None:
    """Make the tables in another database, and copy all rows.

    Raises:
        NotAnIndexError: tables of these names are somebody else's.
    """
    mutations.make_tables(target)
    for table in SCHEMA.sorted_tables:
        rows = source.execute(sql.select(table), execution_options={"yield_per": IDS_PER_STATEMENT})
        for part in rows.mappings().partitions():
            target.execute(table.insert(), [dict(row) for row in part])
