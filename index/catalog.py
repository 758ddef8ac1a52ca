"""The catalog: the SQL database that says what an index holds and which generation is visible.

One transaction makes a change visible, so a reader sees the old generation or the new one.
SQLite (the default) writes ahead and syncs fully; the URL may name PostgreSQL instead. Every row
carries a CRC-32 of its values, because SQLite itself does not notice a byte that flipped.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, astuple, dataclass
from typing import Any

import sqlalchemy as sql
from sqlalchemy import BigInteger, Column, Connection, Engine, ForeignKey, Integer, Table, Text

from index.terms import CaptionRow, ImageRow, Kind, ModelIdentity, Score

FORMAT = 1
SCHEMA = sql.MetaData()

_BULK = 20_000  # rows per INSERT: bounds the memory of adding a million
_LOOKUP = 10_000  # ids per SELECT: SQLite takes 32,766 parameters, PostgreSQL 65,535

META = Table(
    "meta",
    SCHEMA,
    Column("id", Integer, primary_key=True),
    Column("format", Integer, nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("name", Text, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("dimension", Integer, nullable=False),
    Column("score", Text, nullable=False),
    Column("checkpoint", Text, nullable=False),
    Column("checksum", BigInteger, nullable=False),
)
IMAGES = Table(
    "images",
    SCHEMA,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("file_name", Text, nullable=False),
    Column("path", Text, nullable=False),
    Column("width", Integer),
    Column("height", Integer),
    Column("split", Text, nullable=False),
    Column("checksum", BigInteger, nullable=False),
)
CAPTIONS = Table(
    "captions",
    SCHEMA,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("image_id", BigInteger, ForeignKey("images.id"), nullable=False, index=True),
    Column("text", Text, nullable=False),
    Column("checksum", BigInteger, nullable=False),
)
SEGMENTS = Table(
    "segments",
    SCHEMA,
    Column("name", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("rows", BigInteger, nullable=False),
    Column("dimension", Integer, nullable=False),
    Column("dtype", Text, nullable=False),
    Column("score", Text, nullable=False),
    Column("files", Text, nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("checksum", BigInteger, nullable=False),
)
# A row of a segment is dead when its id was deleted in a later generation than the segment's
# own, so that an id that is removed and added again lives in its new segment.
DELETED = Table(
    "deleted",
    SCHEMA,
    Column("kind", Text, primary_key=True),
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("generation", BigInteger, nullable=False),
    Column("checksum", BigInteger, nullable=False),
)


@dataclass(frozen=True, slots=True)
class FileRecord:
    """The size and the SHA-256 that a file of a segment must have."""

    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class SegmentRecord:
    """One row of the segments table."""

    name: str
    kind: Kind
    rows: int
    dimension: int
    dtype: str
    score: Score
    files: Mapping[str, FileRecord]
    generation: int = 0


@dataclass(frozen=True, slots=True)
class Deletion:
    """An id that was removed, and the generation that removed it."""

    kind: Kind
    id: int
    generation: int


@dataclass(frozen=True, slots=True)
class State:
    """What one generation consists of, read in one transaction."""

    model: ModelIdentity
    generation: int
    format: int
    segments: tuple[SegmentRecord, ...]
    deleted: tuple[Deletion, ...]


def row_checksum(*values: object) -> int:
    """Return the CRC-32 of a row's values in their order."""
    return zlib.crc32(repr(values).encode("utf-8", "surrogatepass"))


class Catalog:
    """The tables of one index. Reads and writes have a connection pool each."""

    def __init__(self, url: str | sql.URL) -> None:
        self.url = sql.make_url(url)
        self._writer = _engine(self.url, "BEGIN IMMEDIATE")
        self._reader = _engine(self.url, "BEGIN")

    def close(self) -> None:
        """Let go of every connection."""
        self._reader.dispose()
        self._writer.dispose()

    def create(self, model: ModelIdentity) -> None:
        """Make the tables, empty, at generation 0; whatever they held is dropped."""
        with self.writing() as connection:
            SCHEMA.drop_all(connection)
            SCHEMA.create_all(connection)
            connection.execute(META.insert(), [_meta_row(model, 0)])

    def exists(self) -> bool:
        """Tell whether the database holds our tables and the row that names the model."""
        with self.reading() as connection:
            if not set(SCHEMA.tables) <= set(sql.inspect(connection).get_table_names()):
                return False
            return connection.execute(sql.select(META.c.id)).first() is not None

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Open a read transaction: everything read in it belongs to one instant."""
        with self._reader.begin() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Open the write transaction; it is committed, durably, when the block ends well."""
        with self._writer.begin() as connection:
            yield connection

    def generation(self) -> int:
        """Return the visible generation: one small query."""
        with self.reading() as connection:
            return int(connection.execute(sql.select(META.c.generation)).scalar_one())

    def state(self) -> State:
        """Read the model, the generation, its segments and its deletions."""
        with self.reading() as connection:
            meta = connection.execute(sql.select(META)).one()
            segments = connection.execute(
                sql.select(SEGMENTS).order_by(SEGMENTS.c.generation, SEGMENTS.c.name)
            ).all()
            deleted = connection.execute(sql.select(DELETED)).all()
        return State(
            model=ModelIdentity(
                meta.name, meta.fingerprint, meta.dimension, meta.score, meta.checkpoint
            ),
            generation=meta.generation,
            format=meta.format,
            segments=tuple(_segment(row) for row in segments),
            deleted=tuple(Deletion(row.kind, row.id, row.generation) for row in deleted),
        )

    def images(self, ids: Iterable[int]) -> dict[int, ImageRow]:
        """Return the images there are among `ids`, by id."""
        rows = self._lookup(IMAGES, IMAGES.c.id, ids)
        return {row.id: _image(row) for row in rows}

    def captions(self, ids: Iterable[int]) -> dict[int, CaptionRow]:
        """Return the captions there are among `ids`, by id."""
        rows = self._lookup(CAPTIONS, CAPTIONS.c.id, ids)
        return {row.id: _caption(row) for row in rows}

    def captions_of(self, image_ids: Iterable[int]) -> dict[int, list[CaptionRow]]:
        """Return the captions of each image, by image id, in order of caption id."""
        wanted = list(image_ids)
        found: dict[int, list[CaptionRow]] = {image: [] for image in wanted}
        for row in sorted(self._lookup(CAPTIONS, CAPTIONS.c.image_id, wanted), key=lambda r: r.id):
            found[row.image_id].append(_caption(row))
        return found

    def counts(self) -> dict[Kind, int]:
        """Return the number of images and of captions."""
        with self.reading() as connection:
            return {
                "image": _count(connection, IMAGES),
                "caption": _count(connection, CAPTIONS),
            }

    def _lookup(self, table: Table, column: Column[Any], ids: Iterable[int]) -> list[Any]:
        wanted = list({int(id_) for id_ in ids})
        rows: list[Any] = []
        with self.reading() as connection:
            for at in range(0, len(wanted), _LOOKUP):
                chosen = column.in_(wanted[at : at + _LOOKUP])
                rows += connection.execute(sql.select(table).where(chosen)).all()
        return rows


def existing(connection: Connection, kind: Kind, ids: Sequence[int]) -> set[int]:
    """Return those of `ids` that the catalog already holds."""
    column = (IMAGES if kind == "image" else CAPTIONS).c.id
    found: set[int] = set()
    for at in range(0, len(ids), _LOOKUP):
        part = [int(id_) for id_ in ids[at : at + _LOOKUP]]
        found.update(connection.execute(sql.select(column).where(column.in_(part))).scalars())
    return found


def insert_images(connection: Connection, rows: Iterable[ImageRow]) -> None:
    """Add images, in blocks."""
    _insert(
        connection,
        IMAGES,
        ({**asdict(row), "checksum": row_checksum(*astuple(row))} for row in rows),
    )


def insert_captions(connection: Connection, rows: Iterable[CaptionRow]) -> None:
    """Add captions, in blocks; their images must be there already."""
    _insert(
        connection,
        CAPTIONS,
        (
            {
                "id": row.id,
                "image_id": row.image_id,
                "text": row.text,
                "checksum": row_checksum(row.id, row.image_id, row.text),
            }
            for row in rows
        ),
    )


def insert_segments(
    connection: Connection, records: Iterable[SegmentRecord], generation: int
) -> None:
    """Make finished segment folders part of `generation`."""
    _insert(
        connection,
        SEGMENTS,
        (
            {
                "name": record.name,
                "kind": record.kind,
                "rows": record.rows,
                "dimension": record.dimension,
                "dtype": record.dtype,
                "score": record.score,
                "files": (files := _files_json(record.files)),
                "generation": generation,
                "checksum": _segment_checksum(record, files, generation),
            }
            for record in records
        ),
    )


def delete_images(connection: Connection, ids: Sequence[int], generation: int) -> list[int]:
    """Remove images and their captions from `generation` on; return the captions' ids."""
    gone: list[int] = []
    for at in range(0, len(ids), _LOOKUP):
        part = [int(id_) for id_ in ids[at : at + _LOOKUP]]
        theirs = CAPTIONS.c.image_id.in_(part)
        gone += connection.execute(sql.select(CAPTIONS.c.id).where(theirs)).scalars()
        connection.execute(CAPTIONS.delete().where(theirs))
        connection.execute(IMAGES.delete().where(IMAGES.c.id.in_(part)))
    removed: list[tuple[Kind, Sequence[int]]] = [("image", ids), ("caption", gone)]
    for kind, dead in removed:
        for at in range(0, len(dead), _LOOKUP):
            part = [int(id_) for id_ in dead[at : at + _LOOKUP]]
            connection.execute(
                DELETED.delete().where(DELETED.c.kind == kind, DELETED.c.id.in_(part))
            )
        _insert(
            connection,
            DELETED,
            (
                {
                    "kind": kind,
                    "id": int(id_),
                    "generation": generation,
                    "checksum": row_checksum(kind, int(id_), generation),
                }
                for id_ in dead
            ),
        )
    return gone


def raise_generation(connection: Connection) -> int:
    """Raise the generation by one and return it; readers see it when the block commits."""
    meta = connection.execute(sql.select(META)).one()
    model = ModelIdentity(meta.name, meta.fingerprint, meta.dimension, meta.score, meta.checkpoint)
    connection.execute(META.update(), _meta_row(model, meta.generation + 1))
    return int(meta.generation) + 1


def damaged_rows(catalog: Catalog) -> Iterator[str]:
    """Yield one clause for each row whose values are not those that were written."""
    with catalog.reading() as connection:
        if connection.dialect.name == "sqlite":
            for (line,) in connection.exec_driver_sql("PRAGMA integrity_check(20)"):
                if line != "ok":
                    yield str(line)
        for table in SCHEMA.sorted_tables:
            values = [column for column in table.columns if column.name != "checksum"]
            for row in connection.execute(sql.select(*values, table.c.checksum)):
                if row_checksum(*_checked(table, row[:-1])) != row[-1]:
                    yield f"the row {row[0]!r} of the table {table.name} was changed"


def _checked(table: Table, values: Sequence[Any]) -> Sequence[Any]:
    # The row number of the one meta row is not one of its facts.
    return values[1:] if table is META else values


def _meta_row(model: ModelIdentity, generation: int) -> dict[str, Any]:
    facts = {"format": FORMAT, "generation": generation, **asdict(model)}
    return {"id": 1, **facts, "checksum": row_checksum(*facts.values())}


def _files_json(files: Mapping[str, FileRecord]) -> str:
    return json.dumps({name: asdict(record) for name, record in sorted(files.items())})


def _segment_checksum(record: SegmentRecord, files: str, generation: int) -> int:
    return row_checksum(
        record.name,
        record.kind,
        record.rows,
        record.dimension,
        record.dtype,
        record.score,
        files,
        generation,
    )


def _segment(row: Any) -> SegmentRecord:
    files = {name: FileRecord(**record) for name, record in json.loads(row.files).items()}
    return SegmentRecord(
        row.name, row.kind, row.rows, row.dimension, row.dtype, row.score, files, row.generation
    )


def _image(row: Any) -> ImageRow:
    return ImageRow(row.id, row.file_name, row.path, row.width, row.height, row.split)


def _caption(row: Any) -> CaptionRow:
    return CaptionRow(row.id, row.image_id, row.text)


def _count(connection: Connection, table: Table) -> int:
    return int(connection.execute(sql.select(sql.func.count()).select_from(table)).scalar_one())


def _insert(connection: Connection, table: Table, rows: Iterable[Mapping[str, Any]]) -> None:
    block: list[Mapping[str, Any]] = []
    for row in rows:
        block.append(row)
        if len(block) == _BULK:
            connection.execute(table.insert(), block)
            block = []
    if block:
        connection.execute(table.insert(), block)


def _engine(url: sql.URL, begin: str) -> Engine:
    engine = sql.create_engine(url)
    if url.get_backend_name() != "sqlite":
        return engine

    @sql.event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: Any) -> None:
        # The driver's own transactions start late and leave DDL outside; ours start at begin.
        connection.isolation_level = None
        cursor = connection.cursor()
        for pragma in (
            "journal_mode=WAL",
            "synchronous=FULL",
            "foreign_keys=ON",
            "busy_timeout=10000",
        ):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @sql.event.listens_for(engine, "begin")
    def start(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    return engine
