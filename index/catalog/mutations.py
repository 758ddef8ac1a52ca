"""Statements of write transactions; `Catalog.writing` opens one."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from typing import Any

import numpy as np
import sqlalchemy as sql
from sqlalchemy import Column, Connection, Table

from hasse.index.catalog import generation_file, given
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
    batched,
    create_tables,
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


def create_catalog(catalog: Catalog, model: ModelIdentity) -> None:
    """Make empty tables at generation 0; tables of an earlier catalog are dropped.

    Raises:
        NotAnIndexError: another program has tables of these names.
    """
    catalog.enable_write_ahead_log()
    with catalog.creating() as connection:
        make_tables(connection)
        connection.execute(META.insert(), [_meta_row(model, 0)])


def make_tables(connection: Connection) -> None:
    """Make the tables without rows; tables of an earlier catalog are dropped.

    Raises:
        NotAnIndexError: another program has tables of these names.
    """
    if foreign := foreign_tables(connection):
        raise NotAnIndexError(
            f"{connection.engine.url.database} has a table '{foreign[0]}' that is not ours: give "
            "the catalog a database of its own"
        )
    SCHEMA.drop_all(connection)
    create_tables(connection)


def existing_ids(connection: Connection, kind: Kind, ids: Sequence[int]) -> set[int]:
    """Return those of `ids` that are in the catalog."""
    column = (IMAGES if kind == "image" else CAPTIONS).c.id
    return set(_select_ids(connection, sql.select(column), column, ids))


def image_ids_of(connection: Connection, caption_ids: Sequence[int]) -> set[int]:
    """Return the ids of the images of captions."""
    image_ids = sql.select(CAPTIONS.c.image_id)
    return set(_select_ids(connection, image_ids, CAPTIONS.c.id, caption_ids))


def insert_images(connection: Connection, rows: Iterable[ImageRow]) -> None:
    """Add images, in blocks, as of now, each with its one path."""
    now = time.time_ns() // 1_000_000
    for block in batched(rows, _BULK):
        _insert(connection, IMAGES, (row._replace(added=now) for row in block))
        insert_paths(connection, (PathRow(row.id, row.path) for row in block if row.path))


def insert_paths(connection: Connection, rows: Iterable[PathRow]) -> None:
    """Add files of images, in blocks."""
    _insert(connection, PATHS, rows)


def replace_paths(connection: Connection, paths: Mapping[int, Sequence[PathRow]]) -> None:
    """Replace the files of images; each image has at least one."""
    _delete(connection, PATHS.c.image_id, list(paths))
    insert_paths(connection, (row for rows in paths.values() for row in rows))


def replace_image(connection: Connection, row: ImageRow) -> None:
    """Replace the facts of an image; its point, captions and paths stay."""
    values = row_of(IMAGES, row._replace(added=row.added or 0))
    connection.execute(IMAGES.update().where(IMAGES.c.id == values["id"]).values(values))


def changed_pictures(connection: Connection, rows: Iterable[ImageRow]) -> dict[str, str]:
    """Return the new SHA-256 of the pictures that images have now, by their SHA-256 until now."""
    after = {row.id: row.sha256 for row in rows}
    before = sql.select(IMAGES.c.id, IMAGES.c.sha256).where(IMAGES.c.id.in_(after))
    return {
        sha256: after[id_] for id_, sha256 in connection.execute(before) if sha256 != after[id_]
    }


def restore_keywords(connection: Connection, images: Iterable[ImageRow]) -> None:
    """Give images the keywords that people gave to their pictures."""
    images = list(images)
    texts = given.texts_of(connection, (row.sha256 for row in images))
    keywords = {
        row.id: [text.text for text in texts[row.sha256] if text.source == "added keyword"]
        for row in images
        if row.sha256 in texts
    }
    replace_texts(connection, "added keyword", keywords)


def remember_folders(connection: Connection, folders: Iterable[FolderRow]) -> None:
    """Store folders, each in place of the one of its name."""
    for row in folders:
        connection.execute(FOLDERS.delete().where(FOLDERS.c.name == row.name))
        values = (*row[:-2], json.dumps(row.exclude), int(row.follow_links))
        _insert(connection, FOLDERS, [values])


def remember_removed(connection: Connection, ids: Sequence[int]) -> None:
    """Store the files of images that a user removes, so that no followed folder adds them again."""
    if not ids:
        return
    sha256 = sql.func.coalesce(IMAGES.c.sha256, "")
    files = sql.select(sha256, sql.func.coalesce(PATHS.c.path, "")).select_from(IMAGES)
    removed: set[tuple[str, str]] = set()
    for batch in _batches(ids):
        rows = connection.execute(files.outerjoin(PATHS).where(IMAGES.c.id.in_(batch))).all()
        # A picture that the index stores itself has no path in a folder.
        removed |= {(row[0], row[1] if row[1].startswith("/") else "") for row in rows}
    stored = {tuple(row[:2]) for row in connection.execute(sql.select(REMOVED))}
    _insert(connection, REMOVED, sorted(removed - stored - {("", "")}))


def forget_removed(
    connection: Connection, sha256s: Collection[str], paths: Collection[str]
) -> None:
    """Let followed folders add removed files again, by their SHA-256 or by their paths."""
    for sha256, path, _ in connection.execute(sql.select(REMOVED)).all():
        rest = "" if sha256 in sha256s else sha256, "" if path in paths else path
        if rest != (sha256, path):
            same = REMOVED.c.sha256 == sha256, REMOVED.c.path == path
            connection.execute(REMOVED.delete().where(*same))
            present = sql.select(REMOVED).where(
                REMOVED.c.sha256 == rest[0], REMOVED.c.path == rest[1]
            )
            if any(rest) and connection.execute(present).first() is None:
                _insert(connection, REMOVED, [rest])


def replace_unreadable(connection: Connection, files: Mapping[str, UnreadableFile | None]) -> None:
    """Store files that could not be decoded, by path; None deletes one."""
    for path, file in files.items():
        connection.execute(UNREADABLE.delete().where(UNREADABLE.c.path == path))
        if file is not None:
            _insert(connection, UNREADABLE, [file])


def replace_versions(connection: Connection, rows: Iterable[VersionRow]) -> None:
    """Replace the hash and the first version of images."""
    for block in batched(rows, _BULK):
        forget_versions(connection, [row.image_id for row in block])
        _insert(connection, VERSIONS, block)


def forget_versions(connection: Connection, image_ids: Sequence[int]) -> None:
    """Delete the `VersionRow`s of images that are removed, or get another picture."""
    _delete(connection, VERSIONS.c.image_id, image_ids)


def insert_captions(connection: Connection, rows: Iterable[CaptionRow]) -> None:
    """Add captions, in blocks; their images must be there already."""
    for block in batched(rows, _BULK):
        _insert(connection, CAPTIONS, (row[:-1] for row in block))
        _insert(connection, WRITTEN, ((row.id, row.written_by) for row in block if row.written_by))


def replace_metadata(connection: Connection, metadata: Mapping[int, Metadata]) -> None:
    """Replace the metadata of images; texts of other sources stay."""
    ids = list(metadata)
    _delete(connection, METADATA.c.image_id, ids)
    _delete(connection, TEXTS.c.image_id, ids, TEXTS.c.source.in_(METADATA_SOURCES))
    _insert(connection, METADATA, (_metadata_values(*pair) for pair in metadata.items()))
    _insert(
        connection,
        TEXTS,
        (row for id_, each in metadata.items() for row in _text_values(id_, each.texts)),
    )


def replace_texts(
    connection: Connection, source: TextSource, texts: Mapping[int, Sequence[str]]
) -> None:
    """Replace the texts of one source of images."""
    _delete(connection, TEXTS.c.image_id, list(texts), TEXTS.c.source == source)
    pairs = ((id_, [(source, text) for text in each]) for id_, each in texts.items())
    _insert(connection, TEXTS, (row for pair in pairs for row in _text_values(*pair)))


def delete_generated_captions(
    connection: Connection, image_ids: Iterable[int], generation: int
) -> None:
    """Remove the captions that a model generated for images, from `generation` on."""
    generated = sql.select(CAPTIONS.c.id).join(WRITTEN)
    caption_ids = _select_ids(connection, generated, CAPTIONS.c.image_id, image_ids)
    delete_captions(connection, caption_ids, generation)


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
    """Forget deletions up to a generation, except those of the ids `needed` (R,).

    The largest id and all ids from `FAR_IDS` on stay: `Catalog.free_ids` must not return them.
    """
    # An id that was deleted again after `generation` stays: a newer segment needs it.
    old = sql.select(DELETED.c.id).where(
        DELETED.c.kind == kind,
        DELETED.c.generation <= generation,
        DELETED.c.id < largest_id(connection, kind),
    )
    ids = np.fromiter(connection.execute(old).scalars(), np.int64)
    _delete(connection, DELETED.c.id, np.setdiff1d(ids, needed).tolist(), DELETED.c.kind == kind)


def delete_images(connection: Connection, ids: Sequence[int], generation: int) -> list[int]:
    """Remove images and their captions from `generation` on; return the captions' ids."""
    caption_ids = _select_ids(connection, sql.select(CAPTIONS.c.id), CAPTIONS.c.image_id, ids)
    delete_captions(connection, caption_ids, generation)
    for column in (DOCUMENTS.c.image_id, TEXTS.c.image_id, METADATA.c.image_id, PATHS.c.image_id):
        _delete(connection, column, ids)
    forget_versions(connection, ids)
    _delete(connection, IMAGES.c.id, ids)
    delete_points(connection, "image", ids, generation)
    return caption_ids


def delete_captions(connection: Connection, ids: Sequence[int], generation: int) -> None:
    """Remove captions from `generation` on."""
    _delete(connection, WRITTEN.c.caption_id, ids)
    _delete(connection, CAPTIONS.c.id, ids)
    delete_points(connection, "caption", ids, generation)


def delete_points(connection: Connection, kind: Kind, ids: Sequence[int], generation: int) -> None:
    """Hide the points of `ids` in segments older than `generation`."""
    _delete(connection, DELETED.c.id, ids, DELETED.c.kind == kind)
    _insert(connection, DELETED, ((kind, id_, generation) for id_ in ids))


def raise_generation(connection: Connection, model: ModelIdentity) -> int:
    """Raise the generation by one and return it; readers see it when the block commits.

    Raises:
        ModelMismatchError: the index was re-encoded with another model.
        DamagedIndexError: the catalog is newer than INDEX/generation allows.
    """
    given.make_table(connection)
    meta = connection.execute(sql.select(META)).one()
    refuse_other_model(model, model_of(meta))
    generation_file.allow(connection.engine.url, meta.generation + 1)
    set_model(connection, model_of(meta), meta.generation + 1)
    return int(meta.generation) + 1


def set_model(connection: Connection, model: ModelIdentity, generation: int) -> None:
    """Write the row that names the model and the generation."""
    connection.execute(META.update(), _meta_row(model, generation))


def _metadata_values(image_id: int, metadata: Metadata) -> tuple[object, ...]:
    place: tuple[float | None, ...] = (None, None, None)
    if metadata.latitude is not None and metadata.longitude is not None:
        place = on_sphere(metadata.latitude, metadata.longitude)
    facts = metadata.camera, metadata.rating, metadata.latitude, metadata.longitude
    return image_id, *facts, *place, metadata.sidecars


def _text_values(
    image_id: int, texts: Iterable[tuple[TextSource, str]]
) -> Iterator[tuple[object, ...]]:
    for at, (source, text) in enumerate(texts):
        yield image_id, source, at, text


def _meta_row(model: ModelIdentity, generation: int) -> dict[str, Any]:
    facts = {"format": FORMAT, "generation": generation, **asdict(model)}
    return {"id": 1, **facts, "checksum": row_checksum(*facts.values())}


def _batches(ids: Iterable[Any]) -> Iterable[list[Any]]:
    """Return ids in batches, as Python numbers: database drivers take no numpy numbers."""
    plain = [id_.item() if isinstance(id_, np.generic) else id_ for id_ in ids]
    return batched(plain) if plain else ()


def _select_ids(
    connection: Connection, statement: sql.Select[Any], column: Column[Any], ids: Iterable[int]
) -> list[int]:
    """Return the ids that `statement` selects in the rows whose `column` is one of `ids`."""
    return [
        id_
        for batch in _batches(ids)
        for id_ in connection.execute(statement.where(column.in_(batch))).scalars()
    ]


def _delete(
    connection: Connection,
    column: Column[Any],
    ids: Iterable[int | str],
    *where: sql.ColumnElement[bool],
) -> None:
    for batch in _batches(ids):
        connection.execute(column.table.delete().where(column.in_(batch), *where))


def _insert(connection: Connection, table: Table, rows: Iterable[Iterable[object]]) -> None:
    """Add rows, each with its values in the order of the columns."""
    remaining = iter(rows)
    while block := [row_of(table, row) for row in islice(remaining, _BULK)]:
        connection.execute(table.insert(), block)
