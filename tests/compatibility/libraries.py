"""Unpack libraries of earlier versions, and put those of PostgreSQL into a database."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sql

from tests.postgresql import execute, new_database

HERE = Path(__file__).parent
KINDS = ("sqlite", "postgresql", "moved", "two-towers")


def unpack(version: str, kind: str, place: Path) -> Path:
    """Unpack the library of a kind with its pictures into a folder; return the folder."""
    with tarfile.open(HERE / version / f"{kind}.tar.xz") as archive:
        archive.extractall(place, filter="data")
    return place


@contextmanager
def catalog_placed(folder: Path) -> Iterator[sql.URL | None]:
    """Fill a new database with `catalog.sql` of an unpacked library, if it has one."""
    dump = folder / "catalog.sql"
    if not dump.exists():
        yield None
        return
    with new_database() as url:
        execute(url, dump.read_text().replace("%", "%%"))
        address = url.render_as_string(hide_password=False)
        (folder / "library" / "catalog.url").write_text(address)
        yield url
