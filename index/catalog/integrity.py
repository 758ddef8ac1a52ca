"""Checks of the catalog's tables: whether Hasse made them, and the checksums of their rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import sqlalchemy as sql
from sqlalchemy import Connection, Table

from hasse.index.catalog.database import Database
from hasse.index.catalog.schema import FORMAT, GIVEN, META, SCHEMA, row_checksum
from hasse.index.errors import DamagedIndexError


def has_our_tables(connection: Connection) -> bool:
    """Return whether the database holds our tables and the row that names the model."""
    tables = _tables(connection)
    if META.name not in tables:
        return False
    columns = {column["name"] for column in sql.inspect(connection).get_columns(META.name)}
    if not {column.name for column in META.columns} <= columns:
        return False
    meta = connection.execute(sql.select(META.c.format)).first()
    # Another version has other tables: `state` refuses it by its format.
    return meta is not None and (meta.format != FORMAT or tables | {GIVEN.name} == {*SCHEMA.tables})


def present_tables(connection: Connection) -> list[Table]:
    """Return our tables in a catalog, in an order for copies; a library of 0.3.0 lacks `given`."""
    present = _tables(connection)
    return [table for table in SCHEMA.sorted_tables if table.name in present]


def foreign_tables(connection: Connection) -> list[str]:
    """Return the tables of another program that have names of ours."""
    return [] if has_our_tables(connection) else sorted(_tables(connection))


def intact_rows(
    connection: Connection, table: Table, *where: sql.ColumnElement[bool]
) -> Sequence[Any]:
    """Return the rows of a table, after comparing each with its checksum.

    Raises:
        DamagedIndexError: a row was changed.
    """
    rows = connection.execute(sql.select(table).where(*where)).all()
    for row in rows:
        if not _is_intact(table, row):
            database = connection.engine.url.database
            raise DamagedIndexError(f"{database}: {_row_name(table, row)} was changed")
    return rows


def damaged_rows(catalog: Database) -> Iterator[str]:
    """Yield one clause for each row that was changed."""
    with catalog.reading() as connection:
        if connection.dialect.name == "sqlite":
            for (line,) in connection.exec_driver_sql("PRAGMA integrity_check(20)"):
                if line != "ok":
                    yield str(line)
        for table in present_tables(connection):
            for row in connection.execute(sql.select(table)):
                if not _is_intact(table, row):
                    yield f"{_row_name(table, row)} was changed"


def _tables(connection: Connection) -> set[str]:
    return set(sql.inspect(connection).get_table_names()) & set(SCHEMA.tables)


def _is_intact(table: Table, row: Sequence[Any]) -> bool:
    # The last column is the checksum of the others, in the table `meta` without the id.
    values = row[1:-1] if table is META else row[:-1]
    return bool(row_checksum(*values) == row[-1])


def _row_name(table: Table, row: Sequence[Any]) -> str:
    return f"the row {row[0]!r} of the table '{table.name}'"
