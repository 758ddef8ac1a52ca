"""Each statement of a question uses an index, whatever the database knows about its tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sql

from hasse.index.catalog.database import STATEMENTS
from hasse.index.catalog.selection import Selection
from hasse.index.catalog.text_search import DocumentCounts, match_texts
from hasse.index.search.query import Query
from hasse.index.store import Index
from hasse.index.text.query import TextQuery
from tests.index.samples import model
from tests.postgresql import new_database, place_catalog

ROWS = 100_000
QUERIES = [
    "dog",  # in every document
    "a dog at the beach",
    "beach w77",
    "w77",
    "w99999 zz99999",
    "zzzz",
    "w77777x",  # misspelt
    "felxi and the w123x at zeeman",
    "img 123",
    "99998",
    "beac",
    "each",
    '"beach w77" dog',
    "dog -w77 -w78",
]
KNOWN = {"dog", "beach"}
REPEATS = 7  # a server makes a general plan of a statement that comes back
NUMBERS = {
    "sqlite": "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {} - 1)",
    "postgresql": "WITH n(i) AS (SELECT i FROM generate_series(0, {} - 1) AS s(i))",
}
TABLES = {
    "images": "id, file_name, path, split, sha256, added, checksum "
    "/ i, 'IMG_' || i || '.jpg', '/p/IMG_' || i || '.jpg', '', '', i, 0",
    "paths": "image_id, path, folder, captions, checksum / i, '/p/IMG_' || i || '.jpg', '', '', 0",
    "captions": "id, image_id, text, checksum / i, i, 'a dog at the beach w' || (i % 3000), 0",
    "texts": "image_id, source, position, text, checksum / i, 'title', 0, 'w' || i, 0",
    "documents": "image_id, human, written, checksum "
    "/ i, 'img ' || i || ' jpg | a dog at the beach w' || (i % 3000) || ' | w' || i, '', 0",
}


@pytest.fixture(params=["sqlite", "postgresql"])
def index(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Index]:
    folder = tmp_path / "index"
    if request.param == "sqlite":
        with Index.create(folder, model()) as made:
            yield made
    else:
        with new_database() as url, Index.create(place_catalog(folder, url), model()) as made:
            yield made


def fill(index: Index) -> None:
    with index.catalog.writing() as connection:
        for table, columns in TABLES.items():
            names, _, values = columns.partition("/")
            numbers = NUMBERS[connection.dialect.name].format(ROWS)
            into, rows = f"INSERT INTO {table} ({names})", " ".join(("SELECT", values, "FROM n"))
            server = connection.dialect.name == "postgresql"
            parts = (numbers, into, rows) if server else (into, numbers, rows)
            connection.execute(sql.text(" ".join(parts)))


def record_plans(index: Index) -> list[str]:
    """Return a list that grows by the plans of PostgreSQL, or by the statements of SQLite."""
    plans: list[str] = []
    engine = index.catalog._reader
    engine.dispose()

    @sql.event.listens_for(engine, "connect")
    def watch(connection: Any, _record: Any) -> None:
        if not index.catalog.is_server:
            connection.set_trace_callback(plans.append)
            return
        connection.execute("LOAD 'auto_explain'")
        connection.execute("SET auto_explain.log_min_duration = 0")
        connection.execute("SET client_min_messages = log")
        connection.commit()
        connection.add_notice_handler(lambda notice: plans.append(notice.message_primary))

    return plans


def ask_everything(index: Index) -> None:
    repeats = REPEATS if index.catalog.is_server else 1
    for query in [query for query in QUERIES for _ in range(repeats)]:
        read = TextQuery.read(query)
        chosen = Selection(phrases=read.phrases, excluded_phrases=read.excluded)
        before = STATEMENTS.sent
        with index.catalog.searching() as connection:
            is_narrow = bool(read.phrases or read.excluded)
            conditions = chosen.conditions(connection, index.folder) if is_narrow else ()
            counts = DocumentCounts(ROWS, {})
            found = match_texts(connection, read, KNOWN.__contains__, 40, counts, conditions)
            if is_narrow:
                chosen.newest(connection, index.folder, 10)
        ids = [*found.all_words, *found.unknown_words, *found.partial, *found.resembling][:10]
        hits, _ = index.catalog.image_hits(ids)
        index.catalog.hit_texts(hits)
        index.versions(Query("image", 10), ids)
        assert STATEMENTS.sent - before <= 12
        assert bool(ids) == (query != "zzzz")


@pytest.mark.slow
def test_every_statement_of_a_question_uses_an_index_with_and_without_statistics(
    index: Index,
) -> None:
    fill(index)
    plans = record_plans(index)
    for analyze in (False, True):
        if analyze:
            with index.catalog.writing() as connection:
                connection.exec_driver_sql("ANALYZE")
        ask_everything(index)
    assert len(plans) > 2 * len(QUERIES)
    if not index.catalog.is_server:
        plans = explained(index, plans)
    for plan in plans:
        scans = re.findall(rf"(?:Seq Scan on|SCAN) (?:{'|'.join(TABLES)})\\b.*", plan)
        assert not scans, plan
        # The newest documents are read in order of their ids; others are found by their words.
        in_order = re.findall(r"Index (?:Only )?Scan using documents_pkey on documents.*", plan)
        assert not [scan for scan in in_order if "Index Cond" not in plan], plan


def explained(index: Index, statements: list[str]) -> list[str]:
    """Return the plans of SQLite for each different statement."""
    # All images in order of their ids are read until there are enough.
    newest = "ORDER BY images.id DESC"
    different = {one for one in statements if one.startswith("SELECT") and newest not in one}
    with index.catalog.reading() as connection:
        return [
            "\n".join(row[-1] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {one}"))
            for one in sorted(different)
        ]
