"""Catalogs that 0.2.0 wrote are brought to the format of this version."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sql

from hasse.index.catalog import mutations
from hasse.index.catalog.catalog import Catalog
from hasse.index.catalog.database import catalog_url
from hasse.index.catalog.integrity import damaged_rows
from hasse.index.catalog.schema import (
    DOCUMENTS,
    FOLDERS,
    FORMAT,
    META,
    METADATA,
    REMOVED,
    TEXTS,
    UNREADABLE,
    row_checksum,
)
from hasse.index.catalog.upgrade import FORMAT_OF_0_2_0, upgrade
from hasse.index.store import Index
from hasse.index.types import FolderRow, ImageRow, ModelIdentity, PathRow
from hasse.index.verify import verify

MODEL = ModelIdentity("m", "f", 4, "order")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """An index as 0.2.0 wrote it, beside the folder that it follows."""
    for name in ("pictures/a.png", "pictures/sub/b.png", "single/c.png"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    with Index.create(tmp_path / "index", MODEL) as index:
        rows = [
            ImageRow(1, "a.png", "../pictures/a.png"),
            ImageRow(2, "b.png", "../pictures/sub/b.png"),
            ImageRow(3, "c.png", "../single/c.png"),
            ImageRow(4, "d.png", "/elsewhere/d.png"),
            ImageRow(5, "e.png", "pictures/ab/e.png"),
            ImageRow(9, "f.png", "/elsewhere/f.png"),
        ]
        index.add(rows, [[0.5] * 4] * len(rows))
        index.remove([9])
        followed = {
            1: [PathRow(1, "../pictures/a.png", "../pictures", 1, 2, 3, '{"": ["a dog"]}')],
            2: [PathRow(2, "../pictures/sub/b.png", "../pictures")],
        }
        with index.catalog.writing() as connection:
            mutations.replace_paths(connection, followed)
            make_old(connection)
    return tmp_path


def make_old(connection: sql.Connection) -> None:
    """Give a catalog the tables of 0.2.0."""
    for table in (FOLDERS, REMOVED, UNREADABLE, DOCUMENTS, TEXTS, METADATA):
        table.drop(connection)
    connection.execute(
        sql.text(
            "CREATE TABLE folders (path TEXT PRIMARY KEY, device BIGINT NOT NULL, "
            "checksum BIGINT NOT NULL)"
        )
    )
    values = {"path": "../pictures", "device": 7, "checksum": row_checksum("../pictures", 7)}
    connection.execute(sql.text("INSERT INTO folders VALUES (:path, :device, :checksum)"), values)
    meta = connection.execute(sql.select(META)).one()
    checksum = row_checksum(FORMAT_OF_0_2_0, *tuple(meta)[2:-1])
    connection.execute(META.update().values(format=FORMAT_OF_0_2_0, checksum=checksum))


@pytest.fixture
def upgraded(place: Path) -> Iterator[Index]:
    with Index.open(place / "index") as index:
        yield index


def test_open_of_an_older_catalog_upgrades_it_in_place(upgraded: Index) -> None:
    assert upgraded.catalog.format() == FORMAT
    assert list(damaged_rows(upgraded.catalog)) == []
    assert verify(upgraded.folder).findings == ()


def test_upgrade_names_files_by_their_folders(upgraded: Index, place: Path) -> None:
    known = {row.image_id: row for row in upgraded.catalog.all_paths()}
    followed = str(place / "pictures")
    assert known[1] == PathRow(1, f"{followed}/a.png", followed, 1, 2, 3, '{"": ["a dog"]}')
    assert known[2].path == f"{followed}/sub/b.png"
    assert known[5].path == "pictures/ab/e.png"
    assert {id_: row.path for id_, row in known.items()} == {
        id_: row.path for id_, row in upgraded.catalog.images(list(known)).items()
    }
    folders = upgraded.locations.folders
    assert folders[followed] == FolderRow(followed, followed, "../pictures", 7)
    assert folders[str(place / "single")].device is None
    assert set(folders) == {followed, str(place / "single"), "/elsewhere"}


def test_upgrade_of_an_index_that_moved_with_its_pictures_finds_them(place: Path) -> None:
    moved = place.with_name(f"{place.name} moved")
    place.rename(moved)
    with Index.open(moved / "index") as index:
        assert index.path_of(index.catalog.images([2])[2]) == moved / "pictures/sub/b.png"


def test_upgrade_of_another_format_changes_nothing(place: Path) -> None:
    catalog = Catalog(catalog_url(place / "index"))
    with catalog.writing() as connection:
        connection.execute(META.update().values(format=FORMAT_OF_0_2_0 - 1))
    upgrade(catalog, place / "index")
    assert catalog.format() == FORMAT_OF_0_2_0 - 1
    catalog.close()
