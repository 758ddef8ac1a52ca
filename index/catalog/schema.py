"""The tables of the catalog.

Every row has a CRC-32 of its values, because SQLite does not notice a flipped byte.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

import numpy as np
import sqlalchemy as sql
from sqlalchemy import BigInteger, Column, Connection, Double, ForeignKey, Integer, Table, Text

FORMAT = 9
# New ids continue after the largest id below this bound, so that a user may choose an id above it
# without using up those in between. Deleted ids above it are stored for good.
FAR_IDS = 2**52
LARGEST_ID = 2**53 - 1  # the largest integer that JSON readers with one number type hold exactly
IDS_PER_STATEMENT = 10_000  # SQLite takes 32,766 parameters, PostgreSQL 65,535
SCHEMA = sql.MetaData()
Value = TypeVar("Value")
# An INTEGER primary key is SQLite's row id: it needs no index beside the table.
_ID = BigInteger().with_variant(Integer(), "sqlite")


def _table(name: str, *items: sql.schema.SchemaItem) -> Table:
    """Make a table; the last column of each is the checksum of the others."""
    return Table(name, SCHEMA, *items, Column("checksum", BigInteger, nullable=False))


META = _table(
    "meta",
    Column("id", Integer, primary_key=True),
    Column("format", Integer, nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("name", Text, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("dimension", Integer, nullable=False),
    Column("score", Text, nullable=False),
    Column("checkpoint", Text, nullable=False),
)
IMAGES = _table(
    "images",
    Column("id", _ID, primary_key=True, autoincrement=False),
    Column("file_name", Text, nullable=False),
    Column("path", Text, nullable=False),
    Column("width", Integer),
    Column("height", Integer),
    Column("split", Text, nullable=False),
    Column("sha256", Text, nullable=False),
    Column("added", BigInteger, nullable=False),
    Column("taken", BigInteger),
    # With the id, so that a selection is read from the index alone.
    sql.Index("ix_images_split", "split", "id"),
    sql.Index("ix_images_added", "added", "id"),
    sql.Index("ix_images_taken", "taken", "id"),
)
HAS_SHA256 = IMAGES.c.sha256 != ""
_SHA256_INDEX = sql.Index("ix_images_sha256", IMAGES.c.sha256)
# Every file that holds the picture of an image; `images.path` is the one that is read.
PATHS = _table(
    "paths",
    Column("image_id", BigInteger, ForeignKey("images.id"), primary_key=True),
    Column("path", Text, primary_key=True, index=True),
    Column("folder", Text, nullable=False),
    Column("size", BigInteger),
    Column("modified", BigInteger),
    Column("changed", BigInteger),
    Column("captions", Text, nullable=False),
)
# See `FolderRow`. Paths in other tables begin with the name of a folder.
FOLDERS = _table(
    "folders",
    Column("name", Text, primary_key=True),
    Column("path", Text, nullable=False),
    Column("beside", Text, nullable=False),
    Column("device", BigInteger),
    Column("exclude", Text, nullable=False),
    Column("follow_links", Integer, nullable=False),
)
# Files of images that a user removed: a followed folder does not add them again.
REMOVED = _table(
    "removed",
    Column("sha256", Text, primary_key=True),
    Column("path", Text, primary_key=True),
)
# Files that could not be decoded: their size and times then, and the version of this program.
UNREADABLE = _table(
    "unreadable",
    Column("path", Text, primary_key=True),
    Column("size", BigInteger, nullable=False),
    Column("modified", BigInteger, nullable=False),
    Column("changed", BigInteger, nullable=False),
    Column("version", Text, nullable=False),
)
CAPTIONS = _table(
    "captions",
    Column("id", _ID, primary_key=True, autoincrement=False),
    Column("image_id", BigInteger, ForeignKey("images.id"), nullable=False, index=True),
    Column("text", Text, nullable=False),
)
# The captions that a model generated, and its name; all others are human.
WRITTEN = _table(
    "written",
    Column("caption_id", _ID, ForeignKey("captions.id"), primary_key=True, autoincrement=False),
    Column("written_by", Text, nullable=False),
)
# See `Metadata`. `x`, `y` and `z` are the place on a sphere of radius 1: with them both databases
# can compute distances, also at the poles and at the date line.
METADATA = _table(
    "metadata",
    Column("image_id", _ID, ForeignKey("images.id"), primary_key=True, autoincrement=False),
    Column("camera", Text, nullable=False),
    Column("rating", Integer),
    Column("latitude", Double),
    Column("longitude", Double),
    Column("x", Double),
    Column("y", Double),
    Column("z", Double),
    Column("sidecars", Text, nullable=False),
)
# Texts in a picture or about it, other than captions and names: see `TEXT_SOURCES`.
TEXTS = _table(
    "texts",
    Column("image_id", BigInteger, ForeignKey("images.id"), primary_key=True),
    Column("source", Text, primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("text", Text, nullable=False),
)
# The folded texts of an image, for text search: see `index.catalog.documents`.
DOCUMENTS = _table(
    "documents",
    Column("image_id", _ID, ForeignKey("images.id"), primary_key=True, autoincrement=False),
    Column("human", Text, nullable=False),
    Column("written", Text, nullable=False),
)
# Captions and keywords that people gave, by the SHA-256 of a picture: see `index.catalog.given`.
GIVEN = _table(
    "given",
    Column("sha256", Text, primary_key=True),
    Column("source", Text, primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("text", Text, nullable=False),
)
# Versions of one picture: a perceptual hash in hexadecimal, and the smallest id of the images that
# show the same picture.
VERSIONS = _table(
    "versions",
    Column("image_id", _ID, ForeignKey("images.id"), primary_key=True, autoincrement=False),
    Column("hash", Text, nullable=False),
    Column("picture", BigInteger, nullable=False),
)
IS_LATER_VERSION = VERSIONS.c.image_id != VERSIONS.c.picture
_LATER_VERSION_INDEX = sql.Index("ix_versions_others", VERSIONS.c.picture)
sql.Index("ix_versions_picture", VERSIONS.c.picture)
# Saved searches: see `index.catalog.searches`.
SEARCHES = _table(
    "searches",
    Column("name", Text, primary_key=True),
    Column("request", Text, nullable=False),
    Column("seen", Text, nullable=False),
    Column("looked", BigInteger, nullable=False),
)
SEGMENTS = _table(
    "segments",
    Column("name", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("rows", BigInteger, nullable=False),
    Column("dimension", Integer, nullable=False),
    Column("dtype", Text, nullable=False),
    Column("score", Text, nullable=False),
    Column("files", Text, nullable=False),
    Column("generation", BigInteger, nullable=False),
)
# A deletion applies to the segments of earlier generations only, so that an id can be added again
# in a new segment.
DELETED = _table(
    "deleted",
    Column("kind", Text, primary_key=True),
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("generation", BigInteger, nullable=False),
)

# The columns of a table without the checksum, in the order of the row types of `index.types`.
IMAGE_FACTS = tuple(IMAGES.columns)[:-1]
_WRITTEN_BY = sql.select(WRITTEN.c.written_by).where(WRITTEN.c.caption_id == CAPTIONS.c.id)
WRITTEN_BY = _WRITTEN_BY.correlate(CAPTIONS).scalar_subquery()
CAPTION_FACTS = (*tuple(CAPTIONS.columns)[:-1], WRITTEN_BY)
PATH_FACTS = tuple(PATHS.columns)[:-1]
FOLDER_FACTS = tuple(FOLDERS.columns)[:-1]
TEXT_FACTS = tuple(TEXTS.columns)[:-1]
VERSION_FACTS = tuple(VERSIONS.columns)[:-1]
UNREADABLE_FACTS = tuple(UNREADABLE.columns)[:-1]

_PARTIAL_INDEXES = ((_SHA256_INDEX, HAS_SHA256), (_LATER_VERSION_INDEX, IS_LATER_VERSION))


def create_tables(connection: Connection) -> None:
    """Make the missing tables and their indexes."""
    for index, condition in _PARTIAL_INDEXES:
        # Set here, not at import: the option of a dialect imports all of that dialect.
        index.dialect_kwargs[f"{connection.dialect.name}_where"] = condition
    SCHEMA.create_all(connection)


def row_checksum(*values: object) -> int:
    """Return the CRC-32 of a row's values in their order."""
    return zlib.crc32(repr(values).encode("utf-8", "surrogatepass"))


def row_of(table: Table, values: Iterable[object]) -> dict[str, Any]:
    """Return the row of a table, with its checksum, for values in the order of its columns."""
    # As Python numbers: the checksum must fit the values that the database returns.
    plain = [value.item() if isinstance(value, np.generic) else value for value in values]
    return dict(zip(table.columns.keys(), (*plain, row_checksum(*plain)), strict=True))


def batched(values: Iterable[Value], size: int = IDS_PER_STATEMENT) -> Iterator[list[Value]]:
    """Yield values in lists of at most `size`, by default as many as one statement takes."""
    remaining = iter(values)
    while batch := list(islice(remaining, size)):
        yield batch
