"""Saved searches: name, request, and the hits that the user has seen.

They belong to the library and to no generation: saving one changes no answer.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass

import sqlalchemy as sql
from sqlalchemy import Connection

from hasse.index.catalog.database import Database
from hasse.index.catalog.integrity import intact_rows
from hasse.index.catalog.schema import SEARCHES, row_of


@dataclass(frozen=True, slots=True)
class SavedSearch:
    """A saved search.

    Attributes:
        request: the request in JSON.
        seen: ids of the images that were hits when the user last looked.
        looked: time of that look, in milliseconds since 1970.
    """

    name: str
    request: str
    seen: frozenset[int]
    looked: int


def saved_searches(catalog: Database) -> list[SavedSearch]:
    """Return all saved searches, in order of their names."""
    with catalog.reading() as connection:
        rows = intact_rows(connection, SEARCHES)
    searches = (
        SavedSearch(row.name, row.request, frozenset(json.loads(row.seen)), row.looked)
        for row in rows
    )
    return sorted(searches, key=lambda search: search.name)


def save_search(catalog: Database, name: str, request: str, seen: Iterable[int]) -> SavedSearch:
    """Save a search, in place of one of that name; the user has just seen the hits `seen`."""
    search = _search_seen_now(name, request, seen)
    with catalog.writing() as connection:
        _delete(connection, name)
        _insert(connection, search)
    return search


def note_seen(catalog: Database, name: str, seen: Iterable[int]) -> None:
    """Store the hits that the user has just seen; nothing happens if the search was deleted."""
    with catalog.writing() as connection:
        same = sql.select(SEARCHES.c.request).where(SEARCHES.c.name == name)
        request = connection.execute(same).scalar()
        if request is not None:
            _delete(connection, name)
            _insert(connection, _search_seen_now(name, request, seen))


def delete_search(catalog: Database, name: str) -> bool:
    """Delete a saved search; return whether it existed."""
    with catalog.writing() as connection:
        return _delete(connection, name)


def _delete(connection: Connection, name: str) -> bool:
    return connection.execute(SEARCHES.delete().where(SEARCHES.c.name == name)).rowcount > 0


def _search_seen_now(name: str, request: str, seen: Iterable[int]) -> SavedSearch:
    return SavedSearch(name, request, frozenset(seen), time.time_ns() // 1_000_000)


def _insert(connection: Connection, search: SavedSearch) -> None:
    seen = json.dumps(sorted(search.seen))
    row = row_of(SEARCHES, (search.name, search.request, seen, search.looked))
    connection.execute(SEARCHES.insert(), [row])
