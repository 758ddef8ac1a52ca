"""Searches that are kept by name, with the images that were among their hits when last looked at.

They belong to the library and to no generation: keeping one changes no answer.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass

import sqlalchemy as sql
from sqlalchemy import Connection

from hasse.index.catalog.database import Database
from hasse.index.catalog.integrity import whole_rows
from hasse.index.catalog.schema import SEARCHES, row_of


@dataclass(frozen=True, slots=True)
class SavedSearch:
    """A search by its name.

    Attributes:
        request: what is searched for, in JSON.
        seen: ids of the images that were found when somebody last looked.
        looked: when that was, in milliseconds since 1970.
    """

    name: str
    request: str
    seen: frozenset[int]
    looked: int


def saved_searches(catalog: Database) -> list[SavedSearch]:
    """Return all searches, in order of their names."""
    with catalog.reading() as connection:
        rows = whole_rows(connection, SEARCHES)
    each = (
        SavedSearch(row.name, row.request, frozenset(json.loads(row.seen)), row.looked)
        for row in rows
    )
    return sorted(each, key=lambda one: one.name)


def save_search(catalog: Database, name: str, request: str, seen: Iterable[int]) -> SavedSearch:
    """Keep a search by its name, in place of one of that name; `seen` were looked at now."""
    saved = _looked_at_now(name, request, seen)
    with catalog.writing() as connection:
        _delete(connection, name)
        _insert(connection, saved)
    return saved


def note_seen(catalog: Database, name: str, seen: Iterable[int]) -> None:
    """Note what was found by a search when somebody looked, unless it is gone."""
    with catalog.writing() as connection:
        same = sql.select(SEARCHES.c.request).where(SEARCHES.c.name == name)
        request = connection.execute(same).scalar()
        if request is not None:
            _delete(connection, name)
            _insert(connection, _looked_at_now(name, request, seen))


def delete_search(catalog: Database, name: str) -> bool:
    """Forget a search; tell whether there was one of that name."""
    with catalog.writing() as connection:
        return _delete(connection, name)


def _delete(connection: Connection, name: str) -> bool:
    return connection.execute(SEARCHES.delete().where(SEARCHES.c.name == name)).rowcount > 0


def _looked_at_now(name: str, request: str, seen: Iterable[int]) -> SavedSearch:
    return SavedSearch(name, request, frozenset(seen), time.time_ns() // 1_000_000)


def _insert(connection: Connection, one: SavedSearch) -> None:
    row = row_of(SEARCHES, (one.name, one.request, json.dumps(sorted(one.seen)), one.looked))
    connection.execute(SEARCHES.insert(), [row])
