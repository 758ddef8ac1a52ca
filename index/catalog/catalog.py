"""The catalog: the SQL tables that say what an index holds and which generation is visible.

One transaction makes a change visible, so a reader sees the old generation or the new one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import sqlalchemy as sql
from sqlalchemy import Connection, Table

from hasse.index.catalog import given
from hasse.index.catalog.database import LOCK_SECONDS, Database
from hasse.index.catalog.documents import images_with, sourced_texts, texts_of
from hasse.index.catalog.integrity import has_our_tables, intact_rows
from hasse.index.catalog.locations import Locations
from hasse.index.catalog.lookups import lookup
from hasse.index.catalog.records import Deletions, SegmentRecord, State, file_records, model_of
from hasse.index.catalog.schema import (
    CAPTION_FACTS,
    CAPTIONS,
    DELETED,
    FAR_IDS,
    FORMAT,
    HAS_SHA256,
    IMAGE_FACTS,
    IMAGES,
    LARGEST_ID,
    META,
    METADATA,
    PATH_FACTS,
    PATHS,
    REMOVED,
    SEGMENTS,
    UNREADABLE_FACTS,
    VERSION_FACTS,
    WRITTEN,
    batched,
)
from hasse.index.errors import DamagedIndexError, FormatVersionError
from hasse.index.text.sources import SourcedText, TextSource
from hasse.index.types import (
    KINDS,
    CaptionHitRow,
    CaptionRow,
    DescribedImage,
    Ids,
    ImageHitRow,
    ImageRow,
    Kind,
    Metadata,
    ModelIdentity,
    PathRow,
    UnreadableFile,
    VersionRow,
)

_OfImage = TypeVar("_OfImage", CaptionRow, PathRow)


class Catalog(Database):
    """Reads the tables of one index; `mutations` writes them."""

    def __init__(self, url: str | sql.URL, lock_seconds: float = LOCK_SECONDS) -> None:
        """Name the database; see `Database`."""
        super().__init__(url, lock_seconds)
        self._lookups: dict[str, str] = {}  # SQL by name, compiled at its first use

    def exists(self) -> bool:
        """Return whether the database holds our tables and the row that names the model."""
        with self.reading() as connection:
            return has_our_tables(connection)

    def format(self) -> int:
        """Return the format version."""
        with self.reading() as connection:
            return _format(connection)

    def generation(self) -> int:
        """Return the visible generation: one small query.

        Raises:
            CatalogUnreachableError: the open file was replaced by another.
            DamagedIndexError: the generation is not a number.
        """
        self.check_file()
        with self.reading() as connection:
            generation = connection.execute(sql.select(META.c.generation)).scalar_one()
        if not isinstance(generation, int):
            raise DamagedIndexError(
                f"{self.url.database}: the row of the table '{META.name}' was changed"
            )
        return generation

    def state(self, known: Mapping[str, SegmentRecord] | None = None, since: int = 0) -> State:
        """Read the model, the generation, its segments and its deletions.

        Skips what the caller already has: the segments in `known`, by name, and deletions up to the
        generation `since`. A segment that is missing in `known` may be older than `since`; then
        deletions since that segment are read again.

        Raises:
            FormatVersionError: another version of this program wrote them.
            DamagedIndexError: a row is not what was written.
        """
        known = known or {}
        with self.reading() as connection:
            version = _format(connection)
            if version != FORMAT:
                raise _other_format(self.url, version)
            (meta,) = intact_rows(connection, META)
            names = set(connection.execute(sql.select(SEGMENTS.c.name)).scalars())
            records = [record for name, record in known.items() if name in names]
            for batch in batched(sorted(names - known.keys())):
                new_rows = intact_rows(connection, SEGMENTS, SEGMENTS.c.name.in_(batch))
                records += map(_segment, new_rows)
            oldest = min((r.generation for r in records if r.name not in known), default=since)
            after = DELETED.c.generation > min(oldest, since)
            deleted = intact_rows(connection, DELETED, after)
        return State(
            model=model_of(meta),
            generation=meta.generation,
            segments=tuple(sorted(records, key=lambda s: (s.generation, s.name))),
            deleted=_deletions(deleted),
        )

    def model(self) -> ModelIdentity:
        """Return the model that made the visible points."""
        with self.reading() as connection:
            (meta,) = intact_rows(connection, META)
        return model_of(meta)

    def segment_names(self) -> set[str]:
        """Return the names of the visible segments."""
        return {row.name for row in self._read(sql.select(SEGMENTS.c.name))}

    def images(self, ids: Iterable[int]) -> dict[int, ImageRow]:
        """Return images by id, without those that do not exist."""
        (rows,) = self._look_up("images", ids)
        return {row[0]: ImageRow._make(row) for row in rows}

    def described_images(self, ids: Iterable[int]) -> dict[int, DescribedImage]:
        """Return images with their captions and files, by id, all read at one instant."""
        image_ids = list(ids)
        images, captions, paths = self._look_up("described images", image_ids)
        captions_of = _by_image(CaptionRow, image_ids, captions)
        paths_of = _by_image(PathRow, image_ids, paths)
        return {
            row.id: DescribedImage(row, captions_of[row.id], paths_of[row.id])
            for row in map(ImageRow._make, images)
        }

    def image_hits(self, ids: Iterable[int]) -> tuple[dict[int, ImageHitRow], int]:
        """Return images by id, and the generation that last removed one of `ids`, or 0.

        Their captions are in order of caption id. For an answer of an older generation, compare the
        second value: a removed id may belong to another image by now.
        """
        rows, removal = self._look_up("image hits", ids)
        return {row[0]: ImageHitRow._make(row) for row in rows}, removal

    def hit_texts(self, hits: Mapping[int, ImageHitRow]) -> dict[int, list[SourcedText]]:
        """Return all texts of images by id, in the order of `TEXT_SOURCES`."""
        (rows,) = self._look_up("texts of images", hits)
        other_texts: dict[int, list[SourcedText]] = {}
        for image, source, _, text in sorted(rows):
            other_texts.setdefault(image, []).append(SourcedText(source, text))
        return {
            id_: sourced_texts(hit.file_name, hit.paths, hit.captions, other_texts.get(id_, ()))
            for id_, hit in hits.items()
        }

    def caption_hits(self, ids: Iterable[int]) -> tuple[dict[int, CaptionHitRow], int]:
        """Return captions by id, and the generation that last removed one of `ids`, or 0."""
        rows, removal = self._look_up("caption hits", ids)
        return {row[0]: CaptionHitRow._make(row) for row in rows}, removal

    def image_of(self, sha256: str) -> ImageRow | None:
        """Return the first image whose picture has this SHA-256, or None."""
        same = sql.select(*IMAGE_FACTS).where(IMAGES.c.sha256 == sha256, HAS_SHA256)
        rows = self._read(same.order_by(IMAGES.c.id).limit(1))
        return ImageRow._make(rows[0]) if rows else None

    def images_below(self, folder: str) -> list[ImageRow]:
        """Return the images with a file below a subfolder of the index, each with that `path`."""
        files = sql.select(PATHS.c.path, *IMAGE_FACTS).join(PATHS)
        below = files.where(PATHS.c.path.startswith(f"{folder}/", autoescape=True))
        return [ImageRow._make(row)._replace(path=path) for path, *row in self._read(below)]

    def largest_ids(self) -> dict[Kind, int]:
        """Return the largest id below `FAR_IDS` ever used, or 0, for images and for captions."""
        with self.reading() as connection:
            return {
                "image": largest_id(connection, "image"),
                "caption": largest_id(connection, "caption"),
            }

    def free_ids(self, kind: Kind, largest: int) -> Iterator[int]:
        """Yield ids that no row of `kind` ever had, in order, all above `largest`.

        `largest` is the value of `largest_ids`, or larger.
        """
        yield from range(largest + 1, FAR_IDS)
        table = IMAGES if kind == "image" else CAPTIONS
        far = sql.select(table.c.id).where(table.c.id >= FAR_IDS)
        deleted = sql.select(DELETED.c.id).where(DELETED.c.kind == kind, DELETED.c.id >= FAR_IDS)
        used = {row.id for row in self._read(far.union(deleted))}
        yield from (id_ for id_ in range(FAR_IDS, LARGEST_ID + 1) if id_ not in used)

    def paths_of(self, image_ids: Iterable[int]) -> dict[int, list[PathRow]]:
        """Return the files of each image, by image id, in order of their paths."""
        image_ids = list(image_ids)
        (rows,) = self._look_up("paths of images", image_ids)
        return _by_image(PathRow, image_ids, rows)

    def all_paths(self) -> list[PathRow]:
        """Return the files of all images."""
        return [PathRow._make(row) for row in self._read(sql.select(*PATH_FACTS))]

    def sha256s(self) -> dict[int, str]:
        """Return the SHA-256 of each image's picture, by image id; "" if it is unknown."""
        rows = self._read(sql.select(IMAGES.c.id, IMAGES.c.sha256))
        return {row.id: row.sha256 for row in rows}

    def versions(self) -> dict[int, VersionRow]:
        """Return the hash and the first version of each compared image, by image id."""
        rows = map(VersionRow._make, self._read(sql.select(*VERSION_FACTS)))
        return {row.image_id: row for row in rows}

    def sidecars(self) -> dict[int, str]:
        """Return `Metadata.sidecars` of each image that has metadata, by image id."""
        rows = self._read(sql.select(METADATA.c.image_id, METADATA.c.sidecars))
        return {row.image_id: row.sidecars for row in rows}

    def metadata(self, image_id: int) -> Metadata:
        """Return the metadata of an image, with all of its texts; empty if it has none."""
        of = METADATA.c
        facts = sql.select(of.camera, of.rating, of.latitude, of.longitude, of.sidecars)
        with self.reading() as connection:
            row = connection.execute(facts.where(of.image_id == image_id)).one_or_none()
            texts = tuple(texts_of(connection, [image_id]).get(image_id, ()))
        return Metadata(texts, *row) if row is not None else Metadata(texts)

    def locations(self, index_folder: Path, *, find_missing: bool = False) -> Locations:
        """Return where the folders of the index are now; see `Locations.read`."""
        with self.reading() as connection:
            return Locations.read(connection, index_folder, find_missing=find_missing)

    def given_texts(self, sha256s: Iterable[str]) -> dict[str, list[SourcedText]]:
        """Return what people gave to pictures, by SHA-256: see `index.catalog.given`."""
        with self.reading() as connection:
            return given.texts_of(connection, sha256s)

    def count_kept_texts(self) -> tuple[int, int]:
        """Return how many texts people gave to pictures that are gone, and to how many."""
        with self.reading() as connection:
            return given.count_absent(connection)

    def removed_files(self) -> tuple[set[str], set[str]]:
        """Return the SHA-256 and the paths of files whose images were removed by name."""
        rows = self._read(sql.select(REMOVED.c.sha256, REMOVED.c.path))
        return {row.sha256 for row in rows} - {""}, {row.path for row in rows} - {""}

    def unreadable_files(self) -> list[UnreadableFile]:
        """Return the files that could not be decoded."""
        return [UnreadableFile._make(row) for row in self._read(sql.select(*UNREADABLE_FACTS))]

    def all_rows(self) -> tuple[list[ImageRow], list[CaptionRow]]:
        """Return all images and all captions, read at one instant, each in order of their ids."""
        images = sql.select(*IMAGE_FACTS).order_by(IMAGES.c.id)
        captions = sql.select(*CAPTION_FACTS).order_by(CAPTIONS.c.id)
        with self.reading() as connection:
            return (
                [ImageRow._make(row) for row in connection.execute(images)],
                [CaptionRow._make(row) for row in connection.execute(captions)],
            )

    def captions(self, ids: Iterable[int]) -> dict[int, CaptionRow]:
        """Return captions by id, without those that do not exist."""
        (rows,) = self._look_up("captions", ids)
        return {row[0]: CaptionRow._make(row) for row in rows}

    def captions_of(self, image_ids: Iterable[int]) -> dict[int, list[CaptionRow]]:
        """Return the captions of each image, by image id, in order of caption id."""
        image_ids = list(image_ids)
        (rows,) = self._look_up("captions of images", image_ids)
        return _by_image(CaptionRow, image_ids, rows)

    def count_with_text(self, source: TextSource) -> int:
        """Return how many images have a text of a source; an empty text counts."""
        with self.reading() as connection:
            return len(images_with(connection, source))

    def counts(self) -> dict[Kind, int]:
        """Return the number of images and of captions."""
        with self.reading() as connection:
            return {
                "image": _count(connection, IMAGES),
                "caption": _count(connection, CAPTIONS),
            }

    def authors(self) -> tuple[bool, bool]:
        """Return whether there are human captions, and whether there are generated ones."""
        human = sql.select(CAPTIONS.c.id).outerjoin(WRITTEN).where(WRITTEN.c.caption_id.is_(None))
        statement = sql.select(human.exists(), sql.select(WRITTEN.c.caption_id).exists())
        ((has_human, has_generated),) = self._read(statement)
        return bool(has_human), bool(has_generated)

    def _look_up(self, name: str, ids: Iterable[int]) -> list[Any]:
        """Run one of `LOOKUPS` for `ids`; return its values, most of them lists of rows."""
        ids_json = json.dumps(list({int(id_) for id_ in ids}))
        if name not in self._lookups:
            self._lookups[name] = lookup(name, self.dialect)
        return [json.loads(text) for text in self.fetch(self._lookups[name], ids_json)]

    def _read(self, statement: sql.Executable) -> Sequence[Any]:
        with self.reading() as connection:
            return connection.execute(statement).all()


def _other_format(url: sql.URL, version: int) -> FormatVersionError:
    if version > FORMAT:
        writer, remedy = "a newer version of Hasse", "install that version or a later one"
    else:
        writer, remedy = "a version before 0.3.0", "build the index again, or use that version"
    return FormatVersionError(
        f"{url.database} has the format {version} of {writer}, and this version reads {FORMAT}: "
        f"{remedy}"
    )


def _format(connection: Connection) -> int:
    version: int = connection.execute(sql.select(META.c.format)).scalar_one()
    return version


def _deletions(rows: Sequence[Any]) -> Deletions:
    by_kind: dict[Kind, tuple[Ids, Ids]] = {}
    for kind in KINDS:
        pairs = [(row.id, row.generation) for row in rows if row.kind == kind]
        ids, generations = np.array(pairs, np.int64).reshape(-1, 2).T
        by_kind[kind] = (ids, generations)
    return by_kind


def _by_image(
    kind: type[_OfImage], image_ids: Iterable[int], rows: Iterable[list[Any]]
) -> dict[int, list[_OfImage]]:
    by_image: dict[int, list[_OfImage]] = {image: [] for image in image_ids}
    for row in map(kind._make, sorted(rows)):
        by_image[row.image_id].append(row)
    return by_image


def _segment(row: Any) -> SegmentRecord:
    files = file_records(json.loads(row.files))
    return SegmentRecord(
        row.name, row.kind, row.rows, row.dimension, row.dtype, row.score, files, row.generation
    )


def _count(connection: Connection, table: Table) -> int:
    return int(connection.execute(sql.select(sql.func.count()).select_from(table)).scalar_one())


def largest_id(connection: Connection, kind: Kind) -> int:
    """Return the largest id below `FAR_IDS` that a row of `kind` ever had, or 0."""
    table = IMAGES if kind == "image" else CAPTIONS
    present = sql.select(sql.func.max(table.c.id)).where(table.c.id < FAR_IDS)
    deleted = sql.select(sql.func.max(DELETED.c.id)).where(
        DELETED.c.kind == kind, DELETED.c.id < FAR_IDS
    )
    return max(0, *(int(connection.execute(ids).scalar() or 0) for ids in (present, deleted)))
