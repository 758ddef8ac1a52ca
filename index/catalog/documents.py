"""The text index: one document for each image, with its folded texts, indexed by the database.

A document has two columns: `human` (captions, names, metadata, text in the picture) and `written`
(captions by models). SQLite indexes documents by FTS5, once by words and once by trigrams;
PostgreSQL by full text and, where it can be installed, pg_trgm. `documents_vocabulary` has the
words of `human`; SQLite reads them from its index. Triggers or the server update these indexes in
the transaction that changes the table.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sql
from sqlalchemy import Column, Connection

from hasse.index.catalog.database import Database
from hasse.index.catalog.schema import (
    CAPTIONS,
    DOCUMENTS,
    IMAGES,
    PATHS,
    TEXTS,
    WRITTEN,
    batched,
    row_of,
)
from hasse.index.text.query import fold
from hasse.index.text.sources import TEXT_SOURCES, SourcedText, TextSource

SEPARATOR: Final = " | "  # between texts of a document: no word holds it, so no phrase spans two
_MAX_CHARACTERS = 1 << 16  # of a document: PostgreSQL indexes at most 1 MB
_BATCH = 2_000  # documents in memory

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
# Only adds: a word that is not said any more is counted before it is used. A count of documents for
# each word would be updated by each document, and a transaction keeps all versions of a row.
_ADD_TERMS = """INSERT INTO documents_vocabulary
  SELECT DISTINCT unnest(string_to_array(human, ' ')) FROM {} ON CONFLICT DO NOTHING"""
_VOCABULARY = (
    'CREATE TABLE documents_vocabulary (term TEXT COLLATE "C" PRIMARY KEY)',
    _ADD_TERMS.format("documents"),
    "CREATE FUNCTION add_terms() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN\n"
    + _ADD_TERMS.format("added")
    + "; RETURN NULL; END $$",
    "CREATE TRIGGER terms_added AFTER INSERT ON documents REFERENCING NEW TABLE AS added "
    "FOR EACH STATEMENT EXECUTE FUNCTION add_terms()",
)
_POSTGRESQL = (
    *_VOCABULARY,
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
    else:
        connection.exec_driver_sql("DROP TABLE IF EXISTS documents_vocabulary")
        connection.exec_driver_sql("DROP FUNCTION IF EXISTS add_terms")


def add_vocabulary(database: Database) -> None:
    """Add the words of documents to a catalog of PostgreSQL that 0.3.0 has made."""
    missing = sql.text("SELECT to_regclass('documents_vocabulary') IS NULL")
    if not database.is_server:
        return
    with database.reading() as connection:
        if not connection.execute(missing).scalar_one():
            return
    with database.writing() as connection:
        if connection.execute(missing).scalar_one():  # nobody else has added it meanwhile
            for statement in _VOCABULARY:
                connection.exec_driver_sql(statement)


def refresh(connection: Connection, image_ids: Iterable[int]) -> None:
    """Update the documents of images, and delete those of images that do not exist."""
    for batch in batched(sorted({int(id_) for id_ in image_ids}), _BATCH):
        stored = sql.select(DOCUMENTS).where(DOCUMENTS.c.image_id.in_(batch))
        before = {row[0]: row for row in connection.execute(stored).all()}
        after = {row["image_id"]: row for row in _documents(connection, batch)}
        changed = [id_ for id_, row in after.items() if tuple(row.values()) != before.get(id_)]
        stale = [id_ for id_ in before if id_ in changed or id_ not in after]
        if stale:
            connection.execute(DOCUMENTS.delete().where(DOCUMENTS.c.image_id.in_(stale)))
        if changed:
            connection.execute(DOCUMENTS.insert(), [after[id_] for id_ in changed])


def add_missing(connection: Connection) -> None:
    """Make the documents of all images that have none."""
    documented = sql.select(DOCUMENTS.c.image_id)
    missing = connection.execute(sql.select(IMAGES.c.id).where(IMAGES.c.id.not_in(documented)))
    for batch in batched(missing.scalars().all(), _BATCH):
        rows = list(_documents(connection, batch))
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
    """Rebuild the text index from the other tables."""
    DOCUMENTS.drop(connection)
    DOCUMENTS.create(connection)
    add_missing(connection)


def count_outdated(connection: Connection) -> int:
    """Count the images whose document is missing or differs from their texts."""
    count = 0
    for batch in batched(connection.execute(sql.select(IMAGES.c.id)).scalars().all(), _BATCH):
        statement = sql.select(DOCUMENTS).where(DOCUMENTS.c.image_id.in_(batch))
        stored = {tuple(row) for row in connection.execute(statement)}
        count += sum(tuple(row.values()) not in stored for row in _documents(connection, batch))
    return count


def texts_of(connection: Connection, image_ids: Collection[int]) -> dict[int, list[SourcedText]]:
    """Return all texts of images by id, in the order of `TEXT_SOURCES`."""
    texts: dict[int, list[SourcedText]] = {}
    for batch in batched(sorted({int(id_) for id_ in image_ids})):
        texts |= _texts(connection, batch)
    return texts


def sourced_texts(
    file_name: str,
    paths: Iterable[Sequence[str]],
    captions: Iterable[Sequence[str | None]],
    other_texts: Iterable[SourcedText],
) -> list[SourcedText]:
    """Return the texts of an image, in the order of `TEXT_SOURCES`.

    `paths` and `captions` are pairs as in `ImageHitRow`; `other_texts` are rows of `TEXTS`.
    """
    texts = [SourcedText("file name", file_name.rpartition("/")[2])]
    for path, folder in paths:
        texts += _name_texts(path, folder)
    texts += [
        SourcedText("caption" if by is None else "written caption", text or "")
        for text, by in captions
    ]
    # The sort is stable: texts of one source keep the order of their rows.
    return sorted((*texts, *other_texts), key=lambda text: TEXT_SOURCES.index(text.source))


def _texts(connection: Connection, ids: Sequence[int]) -> dict[int, list[SourcedText]]:
    def by_image(statement: sql.Select[Any], column: Column[Any]) -> dict[int, list[Any]]:
        rows: defaultdict[int, list[Any]] = defaultdict(list)
        for id_, *row in connection.execute(statement.where(column.in_(ids))):
            rows[id_].append(row)
        return rows

    path, caption, text = PATHS.c, CAPTIONS.c, TEXTS.c
    path_rows = sql.select(path.image_id, path.path, path.folder).order_by(path.path)
    paths = by_image(path_rows, path.image_id)
    caption_rows = sql.select(caption.image_id, caption.text, WRITTEN.c.written_by)
    captions = by_image(caption_rows.outerjoin(WRITTEN).order_by(caption.id), caption.image_id)
    text_rows = sql.select(text.image_id, text.source, text.text)
    other_texts = by_image(text_rows.order_by(text.source, text.position), text.image_id)
    names = sql.select(IMAGES.c.id, IMAGES.c.file_name).where(IMAGES.c.id.in_(ids))
    return {
        id_: sourced_texts(
            name,
            paths.get(id_, ()),
            captions.get(id_, ()),
            map(SourcedText._make, other_texts.get(id_, ())),
        )
        for id_, name in connection.execute(names)
    }


def _name_texts(path: str, folder: str) -> Iterator[SourcedText]:
    """Yield the name of a file, and its folder from the followed folder on.

    Folders above the followed one are left out: they say nothing about one picture.
    """
    if folder:  # without pathlib, which would take a quarter of the time of adding a row
        around = folder[: folder.rfind("/") + 1]
        above, _, name = path.rpartition("/")
        yield SourcedText("file name", name)
        if path.startswith(around):
            yield SourcedText("folder", above[len(around) :] or ".")


def _documents(connection: Connection, ids: Sequence[int]) -> Iterator[Mapping[str, Any]]:
    for id_, texts in texts_of(connection, ids).items():
        human = _fold_and_join(text for source, text in texts if source != "written caption")
        written = _fold_and_join(text for source, text in texts if source == "written caption")
        yield row_of(DOCUMENTS, (id_, human, written))


def _fold_and_join(texts: Iterable[str]) -> str:
    return SEPARATOR.join(filter(None, dict.fromkeys(map(fold, texts))))[:_MAX_CHARACTERS].rstrip()


def images_with(connection: Connection, source: TextSource) -> set[int]:
    """Return the ids of images that have a text of a source; an empty text counts."""
    statement = sql.select(TEXTS.c.image_id).where(TEXTS.c.source == source)
    return set(connection.execute(statement).scalars())
