"""What a write transaction does to the catalog; see `Catalog.writing`."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import sqlalchemy as sql
from sqlalchemy import Column, Connection, Table

from hasse.index.catalog import generation_file
from hasse.index.catalog.catalog import Catalog, largest_id
from hasse.index.catalog.integrity import foreign_tables
from hasse.index.catalog.records import SegmentRecord, model_of, refuse_other_model
from hasse.index.catalog.schema import (
    CAPTIONS,
    DELETED,
    DOCUMENTS,
    FOLDERS,
    FORMAT,
    IMAGES,
    META,
    METADATA,
    PATHS,
    REMOVED,
    SCHEMA,
    SEGMENTS,
    TEXTS,
    UNREADABLE,
    VERSIONS,
    WRITTEN,
    create_tables,
    parts,
    row_checksum,
    row_of,
)
from hasse.index.catalog.selection import on_sphere
from hasse.index.errors import NotAnIndexError
from hasse.index.text.sources import METADATA_SOURCES, TextSource
from hasse.index.types import (
    CaptionRow,
    FolderRow,
    Ids,
    ImageRow,
    Kind,
    Metadata,
    ModelIdentity,
    PathRow,
    UnreadableFile,
    VersionRow,
)

_BULK = 20_000  # rows per INSERT: bounds the memory of adding a million


def create(catalog: Catalog, model: ModelIdentity) -> None:
    """Make the tables, empty, at generation 0; what a catalog held in them is dropped.

    Raises:
        NotAnIndexError: tables of these names are somebody else's.
    """
    catalog.enable_write_ahead_log()
    with catalog.creating() as connection:
        make_tables(connection)
        connection.execute(META.insert(), [_meta_row(model, 0)])


def make_tables(connection: Connection) -> None:
    """Make the tables, without any row; what a catalog held in them is dropped.

    Raises:
        NotAnIndexError: tables of these names are somebody else's.
    """
    if taken := foreign_tables(connection):
        raise NotAnIndexError(
            f"{connection.engine.url.database} has a table '{taken[0]}' that is not ours: give the "
            "catalog a database of its own"
        )
    SCHEMA.drop_all(connection)
    create_tables(connection)


def existing(connection: Connection, kind: Kind, ids: Sequence[int]) -> set[int]:
    """Return those of `ids` that the catalog already holds."""
    column = (IMAGES if kind == "image" else CAPTIONS).c.id
    return set(_selected(connection, sql.select(column), column, ids))


def images_of(connection: Connection, caption_ids: Sequence[int]) -> set[int]:
    """Return the ids of the images of captions."""
    theirs = sql.select(CAPTIONS.c.image_id)
    return set(_selected(connection, theirs, CAPTIONS.c.id, caption_ids))


def insert_images(connection: Connection, rows: Iterable[ImageRow]) -> None:
    """Add images, in blocks, as of now, each with its one path."""
    now = time.time_ns() // 1_000_000
    for block in parts(rows, _BULK):
        _insert(connection, IMAGES, (row._replace(added=now) for row in block))
        insert_paths(connection, (PathRow(row.id, row.path) for row in block if row.path))


def insert_paths(connection: Connection, rows: Iterable[PathRow]) -> None:
    """Add files of images, in blocks."""
    _insert(connection, PATHS, rows)


def replace_paths(connection: Connection, paths: Mapping[int, Sequence[PathRow]]) -> None:
    """Give images other files than they had, at least one each."""
    _delete(connection, PATHS.c.image_id, list(paths))
    insert_paths(connection, (row for rows in paths.values() for row in rows))


def replace_image(connection: Connection, row: ImageRow) -> None:
    """Give an image other facts; its point, its captions and its paths are not touched."""
    values = row_of(IMAGES, row._replace(added=row.added or 0))
    connection.execute(IMAGES.update().where(IMAGES.c.id == values["id"]).values(values))


def remember_folders(connection: Connection, folders: Iterable[FolderRow]) -> None:
    """Note folders, each as it is now."""
    for row in folders:
        connection.execute(FOLDERS.delete().where(FOLDERS.c.name == row.name))
        values = (*row[:-2], json.dumps(row.exclude), int(row.follow_links))
        _insert(connection, FOLDERS, [values])


def remember_removed(connection: Connection, ids: Sequence[int]) -> None:
    """Note the files of images that are being removed by name, so that no folder re-adds them."""
    if not ids:
        return
    sha256 = sql.func.coalesce(IMAGES.c.sha256, "")
    files = sql.select(sha256, sql.func.coalesce(PATHS.c.path, "")).select_from(IMAGES)
    found: set[tuple[str, str]] = set()
    for part in parts(_plain(ids)):
        rows = connection.execute(files.outerjoin(PATHS).where(IMAGES.c.id.in_(part))).all()
        # The path of a picture that the index stored itself says nothing about other files.
        found |= {(row[0], row[1] if row[1].startswith("/") else "") for row in rows}
    known = {tuple(row[:2]) for row in connection.execute(sql.select(REMOVED))}
    _insert(connection, REMOVED, sorted(found - known - {("", "")}))


def forget_removed(
    connection: Connection, sha256s: Collection[str], paths: Collection[str]
) -> None:
    """Forget that files were removed by name: by their bytes, and at their paths."""
    for sha256, path, _ in connection.execute(sql.select(REMOVED)).all():
        left = "" if sha256 in sha256s else sha256, "" if path in paths else path
        if left != (sha256, path):
            same = REMOVED.c.sha256 == sha256, REMOVED.c.path == path
            connection.execute(REMOVED.delete().where(*same))
            others = REMOVED.c.sha256 == left[0], REMOVED.c.path == left[1]
            if any(left) and connection.execute(sql.select(REMOVED).where(*others)).first() is None:
                _insert(connection, REMOVED, [left])


def replace_unreadable(connection: Connection, files: Mapping[str, UnreadableFile | None]) -> None:
    """Note files that could not be decoded, by path; None forgets one."""
    for path, file in files.items():
        connection.execute(UNREADABLE.delete().where(UNREADABLE.c.path == path))
        if file is not None:
            _insert(connection, UNREADABLE, [file])


def replace_versions(connection: Connection, rows: Iterable[VersionRow]) -> None:
    """Note what tells the versions of a picture, for each image anew."""
    for block in parts(rows, _BULK):
        forget_versions(connection, [row.image_id for row in block])
        _insert(connection, VERSIONS, block)


def forget_versions(connection: Connection, image_ids: Sequence[int]) -> None:
    """Forget what was noted of images that are removed, or get another picture."""
    _delete(connection, VERSIONS.c.image_id, image_ids)


def insert_captions(connection: Connection, rows: Iterable[CaptionRow]) -> None:
    """Add captions, in blocks; their images must be there already."""
    for block in parts(rows, _BULK):
        _insert(connection, CAPTIONS, (row[:-1] for row in block))
        _insert(connection, WRITTEN, ((row.id, row.written_by) for row in block if row.written_by))


def replace_metadata(connection: Connection, metadata: Mapping[int, Metadata]) -> None:
    """Give images other metadata than they had; their other texts are not touched."""
    ids = list(metadata)
    _delete(connection, METADATA.c.image_id, ids)
    _delete(connection, TEXTS.c.image_id, ids, TEXTS.c.source.in_(METADATA_SOURCES))
    _insert(connection, METADATA, (_metadata_values(*pair) for pair in metadata.items()))
    _insert(
        connection,
        TEXTS,
        (row for id_, found in metadata.items() for row in _text_values(id_, found.texts)),
    )


def replace_texts(
    connection: Connection, source: TextSource, texts: Mapping[int, Sequence[str]]
) -> None:
    """Give images other texts of one source than they had."""
    _delete(connection, TEXTS.c.image_id, list(texts), TEXTS.c.source == source)
    pairs = ((id_, [(source, text) for text in each]) for id_, each in texts.items())
    _insert(connection, TEXTS, (row for pair in pairs for row in _text_values(*pair)))


def delete_written_captions(
    connection: Connection, image_ids: Iterable[int], generation: int
) -> None:
    """Remove the captions that a model wrote for images, from `generation` on."""
    written = sql.select(CAPTIONS.c.id).join(WRITTEN)
    gone = _selected(connection, written, CAPTIONS.c.image_id, image_ids)
    delete_captions(connection, gone, generation)


def insert_segments(
    connection: Connection, records: Iterable[SegmentRecord], generation: int
) -> None:
    """Make finished segment folders part of `generation`."""
    for record in records:
        facts = record.name, record.kind, record.rows, record.dimension, record.dtype, record.score
        files = {name: asdict(file) for name, file in sorted(record.files.items())}
        _insert(connection, SEGMENTS, [(*facts, json.dumps(files), generation)])


def drop_segments(connection: Connection, names: Sequence[str]) -> None:
    """Make segments invisible from now on; their folders stay."""
    _delete(connection, SEGMENTS.c.name, names)


def drop_all_segments(connection: Connection) -> None:
    """Make every segment invisible from now on; their folders stay."""
    connection.execute(SEGMENTS.delete())


def forget_deletions(connection: Connection, kind: Kind, needed: Ids, generation: int) -> None:
    """Forget deletions up to a generation, except those that `needed` (R,) rows are deleted by.

    What `Catalog.free_ids` goes by stays: the largest id, and ids that were named far beyond the
    others.
    """
    # An id that was deleted again since then is needed for a younger segment.
    old = sql.select(DELETED.c.id).where(
        DELETED.c.kind == kind,
        DELETED.c.generation <= generation,
        DELETED.c.id < largest_id(connection, kind),
    )
    ids = np.fromiter(connection.execute(old).scalars(), np.int64)
    _delete(connection, DELETED.c.id, np.setdiff1d(ids, needed).tolist(), DELETED.c.kind == kind)


def delete_images(connection: Connection, ids: Sequence[int], generation: int) -> list[int]:
    """Remove images and their captions from `generation` on; return the captions' ids."""
    gone = _selected(connection, sql.select(CAPTIONS.c.id), CAPTIONS.c.image_id, ids)
    delete_captions(connection, gone, generation)
    for column in (DOCUMENTS.c.image_id, TEXTS.c.image_id, METADATA.c.image_id, PATHS.c.image_id):
        _delete(connection, column, ids)
    forget_versions(connection, ids)
    _delete(connection, IMAGES.c.id, ids)
    delete_points(connection, "image", ids, generation)
    return gone


def delete_captions(connection: Connection, ids: Sequence[int], generation: int) -> None:
    """Remove captions from `generation` on."""
    _delete(connection, WRITTEN.c.caption_id, ids)
    _delete(connection, CAPTIONS.c.id, ids)
    delete_points(connection, "caption", ids, generation)


def delete_points(connection: Connection, kind: Kind, ids: Sequence[int], generation: int) -> None:
    """Hide the points of these ids that are in segments older than `generation`."""
    _delete(connection, DELETED.c.id, ids, DELETED.c.kind == kind)
    _insert(connection, DELETED, ((kind, id_, generation) for id_ in ids))


def raise_generation(connection: Connection, model: ModelIdentity) -> int:
    """Raise the generation by one and return it; readers see it when the block commits.

    Raises:
        ModelMismatchError: the points of the index are no longer those of `model`.
        DamagedIndexError: the catalog is newer than INDEX/generation allows.
    """
    meta = connection.execute(sql.select(META)).one()
    refuse_other_model(model, model_of(meta))
    generation_file.allow(connection.engine.url, meta.generation + 1)
    set_model(connection, model_of(meta), meta.generation + 1)
    return int(meta.generation) + 1


def set_model(connection: Connection, model: ModelIdentity, generation: int) -> None:
    """Write the row that names the model and the generation."""
    connection.execute(META.update(), _meta_row(model, generation))


def _metadata_values(image_id: int, found: Metadata) -> tuple[object, ...]:
    place: tuple[float | None, ...] = (None, None, None)
    if found.latitude is not None and found.longitude is not None:
        place = on_sphere(found.latitude, found.longitude)
    facts = found.camera, found.rating, found.latitude, found.longitude
    return image_id, *facts, *place, found.sidecars


def _text_values(
    image_id: int, texts: Iterable[tuple[TextSource, str]]
) -> Iterator[tuple[object, ...]]:
    for at, (source, text) in enumerate(texts):
        yield image_id, source, at, text


def _meta_row(model: ModelIdentity, generation: int) -> dict[str, Any]:
    facts = {"format": FORMAT, "generation": generation, **asdict(model)}
    return {"id": 1, **facts, "checksum": row_checksum(*facts.values())}


def _plain(ids: Iterable[Any]) -> Iterator[Any]:
    """Yield ids as Python has them: database drivers take no numpy numbers."""
    return (id_.item() if isinstance(id_, np.generic) else id_ for id_ in ids)


def _selected(
    connection: Connection, wanted: sql.Select[Any], column: Column[Any], ids: Iterable[int]
) -> list[int]:
    """Return what is wanted of the rows whose `column` is one of some ids."""
    return [
        found
        for part in parts(_plain(ids))
        for found in connection.execute(wanted.where(column.in_(part))).scalars()
    ]


def _delete(
    connection: Connection,
    column: Column[Any],
    ids: Iterable[int | str],
    *where: sql.ColumnElement[bool],
) -> None:
    for part in parts(_plain(ids)):
        connection.execute(column.table.delete().where(column.in_(part), *where))


def _insert(connection: Connection, table: Table, rows: Iterable[Iterable[object]]) -> None:
    """Add rows, each with its values in the order of the columns."""
    for block in parts(rows, _BULK):
        connection.execute(table.insert(), [row_of(table, row) for row in block])
