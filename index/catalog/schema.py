"""The tables of the catalog.

Every row has a CRC-32 of its values, because SQLite does not notice a flipped byte.
"""

from __future__ import annotations

import zlib

import sqlalchemy as sql
from sqlalchemy import BigInteger, Column, Double, ForeignKey, Integer, Table, Text

FORMAT = 9
BEFORE = (6, 7, 8)  # formats that `index.catalog.upgrade` brings to this one; 0.2.0 wrote 6
# Ids from here on are remembered for good when they are deleted, and new ids do not go on after
# them: somebody named them. So an id as large as can be named leaves all the smaller ones free.
FAR_IDS = 2**52
IDS_PER_STATEMENT = 10_000  # SQLite takes 32,766 parameters, PostgreSQL 65,535
SCHEMA = sql.MetaData()
# An INTEGER primary key is SQLite's row id: it needs no index beside the table.
_ID = BigInteger().with_variant(Integer(), "sqlite")

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
    Column("id", _ID, primary_key=True, autoincrement=False),
    Column("file_name", Text, nullable=False),
    Column("path", Text, nullable=False),
    Column("width", Integer),
    Column("height", Integer),
    Column("split", Text, nullable=False),
    Column("sha256", Text, nullable=False),
    Column("added", BigInteger, nullable=False),
    Column("taken", BigInteger),
    Column("checksum", BigInteger, nullable=False),
    # With the id, so that a selection is read from the index alone.
    sql.Index("ix_images_split", "split", "id"),
    sql.Index("ix_images_added", "added", "id"),
    sql.Index("ix_images_taken", "taken", "id"),
)
HASHED = IMAGES.c.sha256 != ""
sql.Index("ix_images_sha256", IMAGES.c.sha256, sqlite_where=HASHED, postgresql_where=HASHED)
# Every file that holds the picture of an image; `images.path` is the one that is read.
PATHS = Table(
    "paths",
    SCHEMA,
    Column("image_id", BigInteger, ForeignKey("images.id"), primary_key=True),
    Column("path", Text, primary_key=True, index=True),
    Column("folder", Text, nullable=False),
    Column("size", BigInteger),
    Column("modified", BigInteger),
    Column("changed", BigInteger),
    Column("captions", Text, nullable=False),
    Column("checksum", BigInteger, nullable=False),
)
# See `FolderRow`. Paths in other tables begin with the name of a folder.
FOLDERS = Table(
    "folders",
    SCHEMA,
    Column("name", Text, primary_key=True),
    Column("path", Text, nullable=False),
    Column("beside", Text, nullable=False),
    Column("device", BigInteger),
    Column("exclude", Text, nullable=False),
    Column("follow_links", Integer, nullable=False),
    Column("checksum", BigInteger, nullable=False),
)
# Files of images that were removed by name: a followed folder does not bring them back.
REMOVED = Table(
    "removed",
    SCHEMA,
    Column("sha256", Text, primary_key=True),
    Column("path", Text, primary_key=True),
    Column("checksum", BigInteger, nullable=False),
)
# Files that could not be decoded, as they were then, and the version of this program.
UNREADABLE = Table(
    "unreadable",
    SCHEMA,
    Column("path", Text, primary_key=True),
    Column("size", BigInteger, nullable=False),
    Column("modified", BigInteger, nullable=False),
    Column("changed", BigInteger, nullable=False),
    Column("version", Text, nullable=False),
    Column("checksum", BigInteger, nullable=False),
)
CAPTIONS = Table(
    "captions",
    SCHEMA,
    Column("id", _ID, primary_key=True, autoincrement=False),
    Column("image_id", BigInteger, ForeignKey("images.id"), nullable=False, index=True),
    Column("text", Text, nullable=False),
    Column("checksum", BigInteger, nullable=False),
)
# The captions that a model wrote, and which; people wrote the others.
WRITTEN = Table(
    "written",
    SCHEMA,
    Column("caption_id", _ID, ForeignKey("captions.id"), primary_key=True, autoincrement=False),
    Column("written_by", Text, nullable=False),
    Column("checksum", BigInteger, nullable=False),
)
# See `Metadata`. `x`, `y` and `z` are the place on a sphere of radius 1, so that a distance is
# arithmetic that both databases can do, at the poles and at the date line too.
METADATA = Table(
    "metadata",
    SCHEMA,
    Column("image_id", _ID, ForeignKey("images.id"), primary_key=True, autoincrement=False),
    Column("camera", Text, nullable=False),
    Column("rating", Integer),
    Column("latitude", Double),
    Column("longitude", Double),
    Column("x", Double),
    Column("y", Double),
    Column("z", Double),
    Column("sidecars", Text, nullable=False),
    Column("checksum", BigInteger, nullable=False),
)
# What is written in a picture or about it, beside captions and names: see `TEXT_SOURCES`.
TEXTS = Table(
    "texts",
    SCHEMA,
    Column("image_id", BigInteger, ForeignKey("images.id"), primary_key=True),
    Column("source", Text, primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("text", Text, nullable=False),
    Column("checksum", BigInteger, nullable=False),
)
# The folded texts of an image, in which a search looks: see `index.catalog.documents`.
DOCUMENTS = Table(
    "documents",
    SCHEMA,
    Column("image_id", _ID, ForeignKey("images.id"), primary_key=True, autoincrement=False),
    Column("human", Text, nullable=False),
    Column("written", Text, nullable=False),
    Column("checksum", BigInteger, nullable=False),
)
# What tells versions of one picture: a perceptual hash in hexadecimal, and the smallest id of the
# images that were found to show the same picture.
VERSIONS = Table(
    "versions",
    SCHEMA,
    Column("image_id", _ID, ForeignKey("images.id"), primary_key=True, autoincrement=False),
    Column("hash", Text, nullable=False),
    Column("picture", BigInteger, nullable=False),
    Column("checksum", BigInteger, nullable=False),
)
OTHERS = VERSIONS.c.image_id != VERSIONS.c.picture
sql.Index("ix_versions_others", VERSIONS.c.picture, sqlite_where=OTHERS, postgresql_where=OTHERS)
sql.Index("ix_versions_picture", VERSIONS.c.picture)
# Searches that are kept by name: see `index.catalog.searches`.
SEARCHES = Table(
    "searches",
    SCHEMA,
    Column("name", Text, primary_key=True),
    Column("request", Text, nullable=False),
    Column("seen", Text, nullable=False),
    Column("looked", BigInteger, nullable=False),
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
# A row of a segment is deleted when its id was deleted in a later generation than the segment's
# own, so that an id that is removed and added again lives in its new segment.
DELETED = Table(
    "deleted",
    SCHEMA,
    Column("kind", Text, primary_key=True),
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("generation", BigInteger, nullable=False),
    Column("checksum", BigInteger, nullable=False),
)

# The columns of an image, a caption and a path that are facts about it, in the order of the rows.
IMAGE_FACTS = tuple(IMAGES.columns)[:-1]
_WRITTEN_BY = sql.select(WRITTEN.c.written_by).where(WRITTEN.c.caption_id == CAPTIONS.c.id)
WRITTEN_BY = _WRITTEN_BY.correlate(CAPTIONS).scalar_subquery()
CAPTION_FACTS = (*tuple(CAPTIONS.columns)[:-1], WRITTEN_BY)
PATH_FACTS = tuple(PATHS.columns)[:-1]
FOLDER_FACTS = tuple(FOLDERS.columns)[:-1]
TEXT_FACTS = tuple(TEXTS.columns)[:-1]
VERSION_FACTS = tuple(VERSIONS.columns)[:-1]
UNREADABLE_FACTS = tuple(UNREADABLE.columns)[:-1]


def row_checksum(*values: object) -> int:
    """Return the CRC-32 of a row's values in their order."""
    return zlib.crc32(repr(values).encode("utf-8", "surrogatepass"))
