from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sql

from hasse.index.catalog import documents, given, mutations
from hasse.index.catalog.catalog import Catalog
from hasse.index.catalog.integrity import damaged_rows
from hasse.index.catalog.lookups import LOOKUPS, lookup
from hasse.index.catalog.records import FileRecord, SegmentRecord
from hasse.index.catalog.schema import DOCUMENTS, SCHEMA
from hasse.index.catalog.searches import save_search
from hasse.index.errors import CatalogUnreachableError, DamagedIndexError, NotAnIndexError
from hasse.index.text.sources import SourcedText
from hasse.index.types import (
    CaptionRow,
    DescribedImage,
    FolderRow,
    ImageHitRow,
    ImageRow,
    Metadata,
    PathRow,
    UnreadableFile,
    VersionRow,
)
from tests.index.samples import captions, images, model


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog(f"sqlite:///{tmp_path / 'catalog.db'}")


def test_ids_names_and_numbers_come_back_as_they_went_in(catalog: Catalog) -> None:
    mutations.create_catalog(catalog, model())
    row = ImageRow(2**62, "Ä \0 '\".jpg", "a/b", None, None, "")
    numpy_row = ImageRow(np.int64(7), np.str_("7.jpg"), "7.jpg", np.int32(3), np.int32(4), "val")  # type: ignore[arg-type]
    caption = CaptionRow(-5, 2**62, "two\nlines 🐕")
    written = CaptionRow(6, 2**62, "a dog", "tiny 0123456789ab")
    with catalog.writing() as connection:
        mutations.raise_generation(connection, model())
        mutations.insert_images(connection, [row, numpy_row])
        mutations.insert_captions(connection, [caption, written])
    found = catalog.images([2**62, 7, 8])
    now = found[7].added
    row, plain_row = row._replace(added=now), ImageRow(7, "7.jpg", "7.jpg", 3, 4, "val", added=now)
    assert found == {2**62: row, 7: plain_row}
    assert catalog.captions_of([2**62, 7]) == {2**62: [caption, written], 7: []}
    described = DescribedImage(row, [caption, written], [PathRow(2**62, "a/b")])
    assert catalog.described_images([2**62, 8]) == {2**62: described}
    said = [[caption.text, None], [written.text, written.written_by]]
    named = ImageHitRow(2**62, row.file_name, row.width, row.height, row.taken, said, [["a/b", ""]])
    assert catalog.image_hits([2**62, 7, 8]) == (
        {2**62: named, 7: (7, "7.jpg", 3, 4, None, [], [["7.jpg", ""]])},
        0,
    )
    assert catalog.authors() == (True, True)
    assert catalog.counts() == {"image": 2, "caption": 2}
    assert list(damaged_rows(catalog)) == []
    catalog.close()


def test_thousand_ids_are_one_query_and_a_hundred_thousand_rows_go_in_by_blocks(
    catalog: Catalog,
) -> None:
    mutations.create_catalog(catalog, model())
    with catalog.writing() as connection:
        mutations.insert_images(connection, images(range(1000)))
        mutations.insert_captions(connection, captions(range(30_000), range(1000)))
    statements: list[str] = []
    with closing(catalog._reader.raw_connection()) as connection:
        connection.set_trace_callback(statements.append)
    assert len(catalog.captions(range(1000))) == 1000
    assert len([text for text in statements if "SELECT" in text]) == 1
    assert len(catalog.captions(range(-10, 29_990))) == 29_990
    catalog.close()


@pytest.mark.parametrize(
    ("database", "name"), [("sqlite", r":(\w+)"), ("postgresql+psycopg", r"%\((\w+)\)s")]
)
def test_lookup_has_no_parameter_but_its_ids(database: str, name: str) -> None:
    dialect = sql.make_url(f"{database}://").get_dialect()()
    for statement in (lookup(name, dialect) for name in LOOKUPS):
        assert set(re.findall(name, statement)) == {"ids"}


def test_catalog_whose_ids_are_declared_as_once_is_read_and_written(tmp_path: Path) -> None:
    catalog = Catalog(f"sqlite:///{tmp_path / 'new.db'}")
    mutations.create_catalog(catalog, model())
    with catalog.creating() as connection:
        DOCUMENTS.drop(connection)  # virtual tables are not dumped
    with (
        closing(sqlite3.connect(tmp_path / "new.db")) as new,
        closing(sqlite3.connect(tmp_path / "old.db")) as old,
    ):
        dump = "\n".join(new.iterdump())
        assert dump.count("id INTEGER NOT NULL") == 6  # of six tables
        old.executescript(dump.replace("id INTEGER NOT NULL", "id BIGINT NOT NULL"))
    catalog = Catalog(f"sqlite:///{tmp_path / 'old.db'}")
    with catalog.writing() as connection:
        DOCUMENTS.create(connection)
        mutations.raise_generation(connection, model())
        mutations.insert_images(connection, images([7, 3]))
        mutations.insert_captions(connection, captions([9, 8], [7, 7]))
    found, _ = catalog.image_hits([3, 7])
    assert found[3].captions == []
    assert found[7].captions == [[row.text, None] for row in captions([8, 9], [7, 7])]
    assert catalog.counts() == {"image": 2, "caption": 2}
    assert list(damaged_rows(catalog)) == []
    catalog.close()


def test_readers_do_not_see_a_change_before_it_is_whole(catalog: Catalog) -> None:
    mutations.create_catalog(catalog, model())
    with catalog.writing() as connection:
        mutations.raise_generation(connection, model())
        mutations.insert_images(connection, images([1]))
        assert catalog.generation() == 0
        assert catalog.images([1]) == {}
    assert catalog.generation() == 1
    with pytest.raises(ZeroDivisionError), catalog.writing() as connection:
        mutations.delete_images(
            connection, [1], mutations.raise_generation(connection, model()) // 0
        )
    assert catalog.generation() == 1
    catalog.close()


def test_captions_need_their_image(catalog: Catalog) -> None:
    mutations.create_catalog(catalog, model())
    with pytest.raises(sql.exc.IntegrityError), catalog.writing() as connection:
        mutations.insert_captions(connection, captions([1], [5]))
    catalog.close()


def test_every_commit_is_synced_and_reads_go_on_beside_writes(catalog: Catalog) -> None:
    mutations.create_catalog(catalog, model())
    for reach in (catalog.reading, catalog.writing):
        with reach() as connection:
            pragmas = {
                name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
                for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
            }
        assert pragmas == {
            "journal_mode": "wal",
            "synchronous": 2,
            "foreign_keys": 1,
            "busy_timeout": 10000,
        }
    catalog.close()


def test_tables_of_somebody_else_are_left_alone(catalog: Catalog, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "catalog.db")) as other, other:
        other.execute("CREATE TABLE images (theirs TEXT)")
        other.execute("INSERT INTO images VALUES ('kept')")
    with pytest.raises(NotAnIndexError, match=r"'images' that is not ours: give .* of its own"):
        mutations.create_catalog(catalog, model())
    catalog.close()
    with closing(sqlite3.connect(tmp_path / "catalog.db")) as other:
        assert other.execute("SELECT theirs FROM images").fetchall() == [("kept",)]


@pytest.mark.parametrize(
    ("address", "remedy"),
    [
        ("postgresql+no_such_driver://host/mine", r"install its driver .*, or correct its address"),
        ("postgres://host/mine", r"write its address as postgresql\+psycopg://"),
        ("mysql://host/mine", r"write its address as postgresql\+psycopg://"),
    ],
)
def test_database_that_cannot_be_reached_from_here_is_named_with_the_remedy(
    address: str, remedy: str
) -> None:
    with pytest.raises(NotAnIndexError, match=remedy):
        Catalog(address)


def test_change_that_a_server_breaks_off_is_told_as_one(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutations.create_catalog(catalog, model())
    monkeypatch.setattr(catalog, "url", sql.make_url("postgresql://user:secret@host/mine"))
    closed = sql.exc.OperationalError("COMMIT", None, sqlite3.OperationalError("server closed"))
    with (
        pytest.raises(CatalogUnreachableError, match=r"server closed\): start") as told,
        catalog.writing(),
    ):
        raise closed
    assert "secret" not in str(told.value)
    catalog.close()


@pytest.mark.parametrize("table", sorted(SCHEMA.tables))
def test_value_that_changed_in_any_column_of_any_table_is_found(
    table: str, catalog: Catalog, tmp_path: Path
) -> None:
    mutations.create_catalog(catalog, model())
    files = {"points.npy": FileRecord(5, "ab" * 32)}
    with catalog.writing() as connection:
        mutations.raise_generation(connection, model())
        mutations.insert_images(
            connection, [row._replace(taken=5, sha256="ab") for row in images([1, 2])]
        )
        mutations.replace_paths(connection, {1: [PathRow(1, "a.jpg", "pictures", 1, 2, 3)]})
        mutations.remember_folders(connection, [FolderRow("/a", "/b", "../b", 4, ("c",), True)])
        mutations.remember_removed(connection, [1])
        mutations.replace_unreadable(connection, {"/b/c": UnreadableFile("/b/c", 1, 2, 3, "1")})
        mutations.insert_captions(
            connection, [*captions([1, 2, 3], [1, 2]), CaptionRow(5, 1, "a dog", "tiny")]
        )
        record = SegmentRecord("image-1", "image", 1, 16, "float32", "order", files)
        mutations.insert_segments(connection, [record], 1)
        mutations.delete_images(connection, [2], 2)
        metadata = Metadata((("title", "a dog"),), "camera", 3, 52.5, 13.4)
        mutations.replace_metadata(connection, {1: metadata})
        mutations.replace_versions(connection, [VersionRow(1, "ab", 1)])
        given.replace(connection, {"ab": [SourcedText("caption", "a dog")]})
        documents.refresh(connection, [1])
    save_search(catalog, "dogs", '{"caption":"a dog"}', [1])
    catalog.close()
    path = tmp_path / "catalog.db"
    whole = path.read_bytes()
    columns = [c.name for c in SCHEMA.tables[table].columns if (table, c.name) != ("meta", "id")]
    for column in columns:
        path.write_bytes(whole)
        with sqlite3.connect(path) as other:
            other.execute(
                f"UPDATE {table} SET {column} = CASE typeof({column})"  # noqa: S608
                f" WHEN 'integer' THEN {column} + 1 ELSE {column} || 'x' END"
            )
        other.close()
        assert any(f"the table '{table}' was changed" in line for line in damaged_rows(catalog))
        if table in ("meta", "segments", "deleted") and column != "format":
            with pytest.raises(DamagedIndexError, match=rf"catalog\.db.*'{table}' was changed"):
                catalog.state()
        catalog.close()


def test_generation_that_is_no_number_is_damage_by_name(catalog: Catalog, tmp_path: Path) -> None:
    mutations.create_catalog(catalog, model())
    with closing(sqlite3.connect(tmp_path / "catalog.db")) as other, other:
        other.execute("UPDATE meta SET generation = 'x'")
    with pytest.raises(DamagedIndexError, match=r"catalog\.db: .*'meta' was changed"):
        catalog.generation()
    catalog.close()
