"""The catalog: the SQL database that says what an index holds and which generation is visible.

One transaction makes a change visible, so a reader sees the old generation or the new one.
SQLite (the default) writes ahead and syncs fully; the URL may name PostgreSQL instead.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sql
from sqlalchemy import Connection, Engine, Table
from sqlalchemy.exc import NoSuchModuleError, SQLAlchemyError

from index.catalog.database_errors import path_of, refusal
from index.catalog.database_file import OpenedFile
from index.catalog.lookups import (
    CAPTION_HITS,
    CAPTIONS_BY_ID,
    CAPTIONS_BY_IMAGE,
    IMAGE_HITS,
    IMAGES_BY_ID,
    IMAGES_WITH_CAPTIONS,
    Lookup,
)
from index.catalog.records import Deletion, SegmentRecord, State, file_records
from index.catalog.schema import (
    CAPTIONS,
    DELETED,
    FORMAT,
    HASHED,
    IMAGE_FACTS,
    IMAGES,
    META,
    SCHEMA,
    SEGMENTS,
    row_checksum,
)
from index.errors import (
    REMEDY,
    DamagedIndexError,
    FormatVersionError,
    MissingIndexError,
    NotAnIndexError,
)
from index.types import CaptionRow, ImageRow, Kind, ModelIdentity, NamedImage

CATALOG = "catalog.db"
CATALOG_URL = "catalog.url"

# Of SQLite for each connection, in KiB with its sign: the rows of a batch of searches lie on more
# pages than its usual 2 MB hold.
_CACHE = -16_384
# Of a server nobody waits for long: for a connection to it, in seconds, for a sign that it is still
# there, and for a lock that another holds.
_PATIENCE = {
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,  # milliseconds
}
_LOCK_SECONDS = 10
LOOKUP = 10_000  # ids per SELECT: SQLite takes 32,766 parameters, PostgreSQL 65,535


class Catalog:
    """The tables of one index. Reads and writes have a connection pool each."""

    def __init__(self, url: str | sql.URL) -> None:
        """Name the database; it is reached when it is first asked.

        Raises:
            NotAnIndexError: it is of a kind that is not known here, or that has no driver here.
        """
        self.url = sql.make_url(url)
        self._file: OpenedFile | None = None
        if self.url.get_backend_name() == "sqlite":
            self._file = OpenedFile(path_of(self.url))
            self._writer = _file_engine(self.url, "BEGIN IMMEDIATE", self._file)
            self._reader = _file_engine(self.url, "BEGIN", self._file)
        else:
            self._writer = _server_engine(self.url)
            self._reader = _server_engine(self.url)
        dialect = self._reader.dialect
        self._driver: Any = dialect.loaded_dbapi
        self._images_by_id = Lookup.compiled(IMAGES_BY_ID, dialect)
        self._images_with_captions = Lookup.compiled(IMAGES_WITH_CAPTIONS, dialect)
        self._image_hits = Lookup.compiled(IMAGE_HITS, dialect)
        self._caption_hits = Lookup.compiled(CAPTION_HITS, dialect)
        self._captions_by_id = Lookup.compiled(CAPTIONS_BY_ID, dialect)
        self._captions_by_image = Lookup.compiled(CAPTIONS_BY_IMAGE, dialect)

    def close(self) -> None:
        """Let go of every connection."""
        self._reader.dispose()
        self._writer.dispose()

    def prepare(self) -> None:
        """Let reads go on while a write is under way: SQLite keeps a log beside the database."""
        if self.url.get_backend_name() == "sqlite":
            with self._reaching(), closing(self._writer.raw_connection()) as connection:
                connection.cursor().execute("PRAGMA journal_mode=WAL")

    def exists(self) -> bool:
        """Tell whether the database holds our tables and the row that names the model."""
        with self.reading() as connection:
            return _are_ours(connection, _tables(connection))

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Open a read transaction: everything read in it belongs to one instant."""
        with self._answering(), self._reader.begin() as connection:
            yield connection

    @contextmanager
    def creating(self) -> Iterator[Connection]:
        """Open a write transaction in a database that may have none of the tables yet."""
        with self._reaching(), self._writer.begin() as connection:
            yield connection
            self._check_file()

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Open the one write transaction; it is committed, durably, when the block ends well.

        Raises:
            CatalogUnreachableError: the database does not answer, or its file is another by now.
                Whether what it was asked to commit is committed is known once it is settled.
            DiskFullError, IndexLockedError, ReadOnlyIndexError: nothing was committed.
            DamagedIndexError: the database is not what was written.
        """
        with self.creating() as connection:
            # Before anything is read: the first SELECT decides of which instant all others are.
            if connection.dialect.name == "postgresql":
                connection.exec_driver_sql(f"LOCK TABLE {META.name} IN SHARE ROW EXCLUSIVE MODE")
            yield connection

    def settle(self) -> None:
        """Wait for what a server still commits for a writer that was killed or cut off."""
        with self.writing():
            pass

    def _check_file(self) -> None:
        if self._file is not None:
            self._file.check()

    @contextmanager
    def _answering(self) -> Iterator[None]:
        # A database that was changed from outside makes drivers raise all of these.
        try:
            with self._reaching():
                yield
        except (SQLAlchemyError, self._driver.Error, UnicodeDecodeError) as error:
            said = getattr(error, "orig", None) or error
            raise DamagedIndexError(
                f"{self.url.database} cannot be read ({said}): {REMEDY}"
            ) from error

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        try:
            yield
        except (SQLAlchemyError, self._driver.Error) as error:
            if (refused := refusal(self.url, self._driver, error)) is None:
                raise
            raise refused from error

    def generation(self) -> int:
        """Return the visible generation: one small query.

        Raises:
            CatalogUnreachableError: there is another file in the place of the one that is open.
            DamagedIndexError: there is no number.
        """
        self._check_file()
        with self.reading() as connection:
            found = connection.execute(sql.select(META.c.generation)).scalar_one()
        if not isinstance(found, int):
            raise DamagedIndexError(
                f"{self.url.database}: the row of the table '{META.name}' was changed: {REMEDY}"
            )
        return found

    def state(self, known: Mapping[str, SegmentRecord] | None = None, since: int = 0) -> State:
        """Read the model, the generation, its segments and its deletions.

        What a reader has already is not read again: the records of segments in `known`, by name,
        and deletions up to the generation `since`. Only where a segment that is not in `known` is
        older than that, deletions since that segment are read once more.

        Raises:
            FormatVersionError: another version of this program wrote them.
            DamagedIndexError: a row is not what was written.
        """
        known = known or {}
        with self.reading() as connection:
            version = connection.execute(sql.select(META.c.format)).scalar_one()
            if version != FORMAT:
                raise FormatVersionError(
                    f"{self.url.database} has the format {version}, and this version reads "
                    f"{FORMAT}: build the index again, or use the version that made it"
                )
            (meta,) = self._whole(connection, META)
            names = set(connection.execute(sql.select(SEGMENTS.c.name)).scalars())
            records = [record for name, record in known.items() if name in names]
            fresh = sorted(names - known.keys())
            for at in range(0, len(fresh), LOOKUP):
                chosen = SEGMENTS.c.name.in_(fresh[at : at + LOOKUP])
                records += map(_segment, self._whole(connection, SEGMENTS, chosen))
            seen = min((r.generation for r in records if r.name not in known), default=since)
            after = DELETED.c.generation > min(seen, since)
            deleted = self._whole(connection, DELETED, after)
        return State(
            model=model_of(meta),
            generation=meta.generation,
            segments=tuple(sorted(records, key=lambda s: (s.generation, s.name))),
            deleted=tuple(Deletion(row.kind, row.id, row.generation) for row in deleted),
        )

    def names(self) -> set[str]:
        """Return the names of the visible segments."""
        with self.reading() as connection:
            return set(connection.execute(sql.select(SEGMENTS.c.name)).scalars())

    def _whole(
        self, connection: Connection, table: Table, *where: sql.ColumnElement[bool]
    ) -> Sequence[Any]:
        rows = connection.execute(sql.select(table).where(*where)).all()
        for row in rows:
            if not _is_whole(table, row):
                raise DamagedIndexError(
                    f"{self.url.database}: {_row_name(table, row)} was changed: {REMEDY}"
                )
        return rows

    def images(self, ids: Iterable[int]) -> dict[int, ImageRow]:
        """Return the images there are among `ids`, by id."""
        (rows,) = self._look_up(self._images_by_id, ids)
        return _image_rows(rows)

    def images_with_captions(
        self, ids: Iterable[int]
    ) -> tuple[dict[int, ImageRow], dict[int, list[CaptionRow]]]:
        """Return what `images` and `captions_of` do, of one instant."""
        wanted = list(ids)
        images, captions = self._look_up(self._images_with_captions, wanted)
        return _image_rows(images), _captions_by_image(wanted, captions)

    def image_hits(self, ids: Iterable[int]) -> tuple[dict[int, NamedImage], int]:
        """Return the images there are among `ids`, and which generation last removed one of them.

        Their captions are in order of caption id. Of an answer of an older generation, an id that
        was removed may be another image's by now.
        """
        rows, removal = self._look_up(self._image_hits, ids)
        return {row[0]: NamedImage._make(row) for row in rows}, removal

    def caption_hits(self, ids: Iterable[int]) -> tuple[dict[int, CaptionRow], int]:
        """Return what `captions` does, and which generation last removed one of `ids`."""
        rows, removal = self._look_up(self._caption_hits, ids)
        return _caption_rows(rows), removal

    def image_of(self, sha256: str) -> ImageRow | None:
        """Return the first image whose picture has these contents, if it was hashed."""
        same = sql.select(*IMAGE_FACTS).where(IMAGES.c.sha256 == sha256, HASHED)
        with self.reading() as connection:
            row = connection.execute(same.order_by(IMAGES.c.id)).first()
        return None if row is None else ImageRow._make(row)

    def images_below(self, folder: str) -> list[ImageRow]:
        """Return the images whose pictures lie in a folder of the index."""
        below = sql.select(*IMAGE_FACTS).where(
            IMAGES.c.path.startswith(f"{folder}/", autoescape=True)
        )
        with self.reading() as connection:
            return [ImageRow._make(row) for row in connection.execute(below)]

    def largest_ids(self) -> dict[Kind, int]:
        """Return the largest id of the images and of the captions; 0 where there are none.

        Ids of what was deleted count, as far as they are remembered: they are not given again.
        """
        with self.reading() as connection:
            return {
                "image": _largest(connection, IMAGES, "image"),
                "caption": _largest(connection, CAPTIONS, "caption"),
            }

    def captions(self, ids: Iterable[int]) -> dict[int, CaptionRow]:
        """Return the captions there are among `ids`, by id."""
        (rows,) = self._look_up(self._captions_by_id, ids)
        return _caption_rows(rows)

    def captions_of(self, image_ids: Iterable[int]) -> dict[int, list[CaptionRow]]:
        """Return the captions of each image, by image id, in order of caption id."""
        wanted = list(image_ids)
        (rows,) = self._look_up(self._captions_by_image, wanted)
        return _captions_by_image(wanted, rows)

    def counts(self) -> dict[Kind, int]:
        """Return the number of images and of captions."""
        with self.reading() as connection:
            return {
                "image": _count(connection, IMAGES),
                "caption": _count(connection, CAPTIONS),
            }

    def _look_up(self, lookup: Lookup, ids: Iterable[int]) -> list[Any]:
        """Return what a lookup gives of `ids`, most of it lists of rows."""
        wanted = json.dumps(list({int(id_) for id_ in ids}))
        with self._answering(), closing(self._reader.raw_connection()) as connection:
            cursor = connection.cursor()
            cursor.execute(lookup.statement, lookup.parameters(wanted))
            texts = cursor.fetchone() or ()
            cursor.close()
        return [json.loads(text) for text in texts]


def open_catalog(folder: Path) -> Catalog:
    """Connect to the catalog of an index, wherever `named_url` says that it is.

    Raises:
        MissingIndexError, NotAnIndexError: there is none, or it is something else.
    """
    url = named_url(folder)
    if url.get_backend_name() == "sqlite" and not (folder / CATALOG).is_file():
        raise MissingIndexError(
            f"no index at {folder}: make one with 'hasse index build --out {folder} ...'"
        )
    catalog = Catalog(url)
    try:
        if not catalog.exists():
            raise NotAnIndexError(
                f"{url.database} is not a catalog of ours: name the folder of an index, or build "
                "one"
            )
    except BaseException:
        catalog.close()
        raise
    return catalog


def named_url(folder: Path) -> sql.URL:
    """Return where the catalog of an index is: as the file `catalog.url` says, if there is one."""
    pointer = folder / CATALOG_URL
    if not pointer.is_file():
        return sqlite_url(folder)
    try:
        url = sql.make_url(pointer.read_text(encoding="utf-8").strip())
    except (sql.exc.ArgumentError, ValueError):
        url = None
    if url is None or url.get_backend_name() == "sqlite":  # whose file is CATALOG, or no index's
        raise NotAnIndexError(
            f"{pointer} holds no address of a database server: write one line, such as "
            "postgresql+psycopg://user@host/database, or remove it"
        )
    return url


def sqlite_url(folder: Path) -> sql.URL:
    """Return where the catalog of an index is unless it is told otherwise.

    In a folder that cannot be written SQLite can keep no log, and needs none.
    """
    path = folder / CATALOG
    if path.exists() and not os.access(folder, os.W_OK):
        waiting = path.with_name(CATALOG + "-wal").exists()
        query = {"uri": "true", "mode": "ro", "immutable": "0" if waiting else "1"}
        return sql.URL.create("sqlite", database=f"file:{quote(str(path))}", query=query)
    return sql.URL.create("sqlite", database=str(path))


def model_of(meta: Any) -> ModelIdentity:
    """Return the model that the row of the table `meta` names."""
    return ModelIdentity(meta.name, meta.fingerprint, meta.dimension, meta.score, meta.checkpoint)


def foreign_tables(connection: Connection) -> list[str]:
    """Return the tables that have names of ours and that no catalog of ours made."""
    found = _tables(connection)
    return [] if _are_ours(connection, found) else sorted(found)


def damaged_rows(catalog: Catalog) -> Iterator[str]:
    """Yield one clause for each row whose values are not those that were written."""
    with catalog.reading() as connection:
        if connection.dialect.name == "sqlite":
            for (line,) in connection.exec_driver_sql("PRAGMA integrity_check(20)"):
                if line != "ok":
                    yield str(line)
        for table in SCHEMA.sorted_tables:
            for row in connection.execute(sql.select(table)):
                if not _is_whole(table, row):
                    yield f"{_row_name(table, row)} was changed"


def _tables(connection: Connection) -> set[str]:
    return set(sql.inspect(connection).get_table_names()) & set(SCHEMA.tables)


def _are_ours(connection: Connection, tables: set[str]) -> bool:
    every = tables == set(SCHEMA.tables)
    return every and connection.execute(sql.select(META.c.id)).first() is not None


def _image_rows(rows: Iterable[Sequence[Any]]) -> dict[int, ImageRow]:
    return {row[0]: ImageRow._make(row) for row in rows}


def _caption_rows(rows: Iterable[Sequence[Any]]) -> dict[int, CaptionRow]:
    return {row[0]: CaptionRow._make(row) for row in rows}


def _captions_by_image(
    image_ids: Iterable[int], rows: Iterable[list[Any]]
) -> dict[int, list[CaptionRow]]:
    found: dict[int, list[CaptionRow]] = {image: [] for image in image_ids}
    for row in sorted(rows):
        found[row[1]].append(CaptionRow._make(row))
    return found


def _is_whole(table: Table, row: Sequence[Any]) -> bool:
    # The checksum is the last column; the number of the one meta row is not one of its facts.
    values = row[1:-1] if table is META else row[:-1]
    return bool(row_checksum(*values) == row[-1])


def _row_name(table: Table, row: Sequence[Any]) -> str:
    return f"the row {row[0]!r} of the table '{table.name}'"


def _segment(row: Any) -> SegmentRecord:
    files = file_records(json.loads(row.files))
    return SegmentRecord(
        row.name, row.kind, row.rows, row.dimension, row.dtype, row.score, files, row.generation
    )


def _count(connection: Connection, table: Table) -> int:
    return int(connection.execute(sql.select(sql.func.count()).select_from(table)).scalar_one())


def _largest(connection: Connection, table: Table, kind: Kind) -> int:
    present = sql.select(sql.func.max(table.c.id))
    gone = sql.select(sql.func.max(DELETED.c.id)).where(DELETED.c.kind == kind)
    return max(int(connection.execute(ids).scalar() or 0) for ids in (present, gone))


def _file_engine(url: sql.URL, begin: str, file: OpenedFile) -> Engine:
    engine = sql.create_engine(url)

    @sql.event.listens_for(engine, "do_connect")
    def check(*_: Any) -> None:
        file.check()

    @sql.event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: Any) -> None:
        file.opened()
        # The driver's own transactions start late and leave DDL outside; ours start at begin.
        connection.isolation_level = None
        cursor = connection.cursor()
        settings = (
            "synchronous=FULL",
            "foreign_keys=ON",
            f"busy_timeout={_LOCK_SECONDS}000",
            f"cache_size={_CACHE}",
        )
        for pragma in settings:
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @sql.event.listens_for(engine, "begin")
    def start(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    return engine


def _server_engine(url: sql.URL) -> Engine:
    if url.get_backend_name() != "postgresql":
        raise NotAnIndexError(
            f"{url.render_as_string()} is no database for a catalog: write its address as "
            "postgresql+psycopg://user@host/database"
        )
    # One instant for all queries of a transaction, which SQLite gives without asking.
    # A connection that broke while it lay idle is made again.
    try:
        engine = sql.create_engine(
            url, isolation_level="REPEATABLE READ", pool_pre_ping=True, connect_args=_PATIENCE
        )
    except (ModuleNotFoundError, NoSuchModuleError) as error:
        raise NotAnIndexError(
            f"the catalog {url.render_as_string()} cannot be reached from here ({error}): install "
            'its driver with pip install "psycopg[binary]", or correct its address'
        ) from None

    @sql.event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: Any) -> None:
        connection.cursor().execute(f"SET lock_timeout = '{_LOCK_SECONDS}s'")
        connection.commit()

    return engine
