"""The text index: what each image says, folded into one document, and indexed by the database.

A document holds the texts of an image: of people (their captions, names, metadata, text in the
picture) and, apart from them, of models. SQLite indexes documents by FTS5, once by words and once
by trigrams; PostgreSQL by full text and, where it can be installed, pg_trgm. Both indexes follow
the table by themselves, so that they are part of every transaction.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sql
from sqlalchemy import Column, Connection

from hasse.index.catalog.schema import (
    CAPTIONS,
    DOCUMENTS,
    IMAGES,
    PATHS,
    TEXTS,
    WRITTEN,
    parts,
    row_of,
)
from hasse.index.text.query import fold
from hasse.index.text.sources import TEXT_SOURCES, TextSource
from hasse.index.types import SourcedText

BETWEEN: Final = " | "  # texts of a document: no word holds it, so that no phrase spans two texts
_MOST_CHARACTERS = 1 << 16  # of a document: PostgreSQL indexes at most 1 MB
_AT_ONCE = 2_000  # documents in memory

_FTS = "USING fts5(%s, content='documents', content_rowid='image_id', columnsize=0, %s)"
_SQLITE = (
    # Words are separated already: every character but the space belongs to one.
    "CREATE VIRTUAL TABLE documents_words "
    + _FTS
    % (
        "human, written",
        "detail=column, tokenize=\"unicode61 remove_diacritics 0 categories 'L* M* N* C*'\"",
    ),
    "CREATE VIRTUAL TABLE documents_trigrams " + _FTS % ("human", "detail=none, tokenize=trigram"),
    """CREATE TRIGGER documents_inserted AFTER INSERT ON documents BEGIN
  INSERT INTO documents_words(rowid, human, written) VALUES (new.image_id, new.human, new.written);
  INSERT INTO documents_trigrams(rowid, human) VALUES (new.image_id, new.human);
END""",
    """CREATE TRIGGER documents_deleted AFTER DELETE ON documents BEGIN
  INSERT INTO documents_words(documents_words, rowid, human, written)
    VALUES ('delete', old.image_id, old.human, old.written);
  INSERT INTO documents_trigrams(documents_trigrams, rowid, human)
    VALUES ('delete', old.image_id, old.human);
END""",
)
_POSTGRESQL = (
    *(
        f"CREATE INDEX ix_documents_{column} ON documents "
        f"USING gin (array_to_tsvector(string_to_array({column}, ' ')))"
        for column in ("human", "written")
    ),
    # Without the extension, parts of words are found more slowly.
    "DO $$ BEGIN CREATE EXTENSION IF NOT EXISTS pg_trgm WITH SCHEMA public; "
    "EXCEPTION WHEN OTHERS THEN NULL; END $$",
    "DO $$ BEGIN EXECUTE 'CREATE INDEX ix_documents_trigrams ON documents USING gin (human ' || "
    "(SELECT quote_ident(nspname) FROM pg_extension JOIN pg_namespace "
    "ON pg_namespace.oid = extnamespace WHERE extname = 'pg_trgm') || '.gin_trgm_ops)'; "
    "EXCEPTION WHEN OTHERS THEN NULL; END $$",
)
# Negative: lists of all sizes, and not only many of one size.
_MERGE = "INSERT INTO documents_words(documents_words, rank) VALUES ('merge', ?)"
_PAGES = 1_000  # of 4 kB, merged by one transaction: 70 ms
_ALL_PAGES = 2**31 - 1
_INDEXES = {"sqlite": _SQLITE, "postgresql": _POSTGRESQL}


@sql.event.listens_for(DOCUMENTS, "after_create")
def _create_indexes(_table: sql.Table, connection: Connection, **_: object) -> None:
    for statement in _INDEXES[connection.dialect.name]:
        connection.exec_driver_sql(statement)


@sql.event.listens_for(DOCUMENTS, "after_drop")
def _drop_indexes(_table: sql.Table, connection: Connection, **_: object) -> None:
    if connection.dialect.name == "sqlite":
        for name in ("documents_words", "documents_trigrams"):
            connection.exec_driver_sql(f"DROP TABLE IF EXISTS {name}")


def refresh(connection: Connection, image_ids: Iterable[int]) -> None:
    """Make the documents of images anew, of those that there are."""
    for part in parts(sorted({int(id_) for id_ in image_ids}), _AT_ONCE):
        known = sql.select(DOCUMENTS).where(DOCUMENTS.c.image_id.in_(part))
        before = {row[0]: row for row in connection.execute(known).all()}
        after = {row["image_id"]: row for row in _documents(connection, part)}
        changed = [id_ for id_, row in after.items() if tuple(row.values()) != before.get(id_)]
        stale = [id_ for id_ in before if id_ in changed or id_ not in after]
        if stale:
            connection.execute(DOCUMENTS.delete().where(DOCUMENTS.c.image_id.in_(stale)))
        if changed:
            connection.execute(DOCUMENTS.insert(), [after[id_] for id_ in changed])


def add_missing(connection: Connection) -> None:
    """Make the documents of all images that have none."""
    known = sql.select(DOCUMENTS.c.image_id)
    missing = connection.execute(sql.select(IMAGES.c.id).where(IMAGES.c.id.not_in(known)))
    for part in parts(missing.scalars().all(), _AT_ONCE):
        rows = list(_documents(connection, part))
        if rows:
            connection.execute(DOCUMENTS.insert(), rows)
    merge(connection, _ALL_PAGES)


def merge(connection: Connection, pages: int = _PAGES) -> None:
    """Merge the lists that changes have left for each word, up to some pages of them.

    SQLite reads a list in twenty parts in twice the time that it takes for one; PostgreSQL has one.
    """
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql(_MERGE, (-pages,))


def rebuild(connection: Connection) -> None:
    """Make the text index anew, from the rows that it is about."""
    DOCUMENTS.drop(connection)
    DOCUMENTS.create(connection)
    add_missing(connection)


def outdated(connection: Connection) -> int:
    """Return how many images have no document, or not that of their texts."""
    count = 0
    for part in parts(connection.execute(sql.select(IMAGES.c.id)).scalars().all(), _AT_ONCE):
        chosen = sql.select(DOCUMENTS).where(DOCUMENTS.c.image_id.in_(part))
        known = {tuple(row) for row in connection.execute(chosen)}
        count += sum(tuple(row.values()) not in known for row in _documents(connection, part))
    return count


def texts_of(connection: Connection, image_ids: Collection[int]) -> dict[int, list[SourcedText]]:
    """Return all texts of each of the images there are, the most telling sources first."""
    found: dict[int, list[SourcedText]] = {}
    for part in parts(sorted({int(id_) for id_ in image_ids})):
        found |= _texts(connection, part)
    return found


def sourced(
    file_name: str,
    paths: Iterable[Sequence[str]],
    captions: Iterable[Sequence[str | None]],
    others: Iterable[SourcedText],
) -> list[SourcedText]:
    """Return the texts of an image, the most telling sources first.

    `paths` and `captions` are pairs as in `NamedImage`, `others` what `TEXTS` has of it.
    """
    texts = [SourcedText("file name", file_name.rpartition("/")[2])]
    for path, folder in paths:
        texts += _names(path, folder)
    texts += [
        SourcedText("caption" if by is None else "written caption", text or "")
        for text, by in captions
    ]
    # Stable: those of one source are in order of their rows.
    return sorted((*texts, *others), key=lambda one: TEXT_SOURCES.index(one.source))


def _texts(connection: Connection, ids: Sequence[int]) -> dict[int, list[SourcedText]]:
    def by_image(statement: sql.Select[Any], column: Column[Any]) -> dict[int, list[Any]]:
        found: defaultdict[int, list[Any]] = defaultdict(list)
        for id_, *row in connection.execute(statement.where(column.in_(ids))):
            found[id_].append(row)
        return found

    of, by = PATHS.c, WRITTEN.c.written_by
    paths = by_image(sql.select(of.image_id, of.path, of.folder).order_by(of.path), of.image_id)
    own = CAPTIONS.c
    written = sql.select(own.image_id, own.text, by).outerjoin(WRITTEN).order_by(own.id)
    captions = by_image(written, own.image_id)
    said = TEXTS.c
    rows = sql.select(said.image_id, said.source, said.text)
    others = by_image(rows.order_by(said.source, said.position), said.image_id)
    names = sql.select(IMAGES.c.id, IMAGES.c.file_name).where(IMAGES.c.id.in_(ids))
    return {
        id_: sourced(
            name,
            paths.get(id_, ()),
            captions.get(id_, ()),
            map(SourcedText._make, others.get(id_, ())),
        )
        for id_, name in connection.execute(names)
    }


def _names(path: str, folder: str) -> Iterator[SourcedText]:
    """Yield the name of a file, and its folder from the followed one on, which is named too.

    The folders above belong to the machine: they say nothing about one picture.
    """
    if folder:  # pathlib would take a quarter of the time of adding a row
        around = folder[: folder.rfind("/") + 1]
        above, _, name = path.rpartition("/")
        yield SourcedText("file name", name)
        if path.startswith(around):
            yield SourcedText("folder", above[len(around) :] or ".")


def _documents(connection: Connection, ids: Sequence[int]) -> Iterator[Mapping[str, Any]]:
    for id_, texts in texts_of(connection, ids).items():
        human = _joined(text for source, text in texts if source != "written caption")
        written = _joined(text for source, text in texts if source == "written caption")
        yield row_of(DOCUMENTS, (id_, human, written))


def _joined(texts: Iterable[str]) -> str:
    return BETWEEN.join(filter(None, dict.fromkeys(map(fold, texts))))[:_MOST_CHARACTERS].rstrip()


def images_with(connection: Connection, source: TextSource) -> set[int]:
    """Return the images that have a text of a source, be it an empty one."""
    chosen = sql.select(TEXTS.c.image_id).where(TEXTS.c.source == source)
    return set(connection.execute(chosen).scalars())
