"""The catalog: the SQL tables that say what an index holds and which generation is visible.

One transaction makes a change visible, so a reader sees the old generation or the new one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sql
from sqlalchemy import Connection, Table

from hasse.index.catalog.database import LOCK_SECONDS, Database
from hasse.index.catalog.documents import images_with, sourced, texts_of
from hasse.index.catalog.integrity import are_ours, whole_rows
from hasse.index.catalog.locations import Locations
from hasse.index.catalog.lookups import lookup
from hasse.index.catalog.records import Deletion, SegmentRecord, State, file_records, model_of
from hasse.index.catalog.schema import (
    BEFORE,
    CAPTION_FACTS,
    CAPTIONS,
    DELETED,
    FAR_IDS,
    FORMAT,
    HASHED,
    IMAGE_FACTS,
    IMAGES,
    LARGEST_ID,
    META,
    METADATA,
    PATH_FACTS,
    REMOVED,
    SEGMENTS,
    UNREADABLE_FACTS,
    VERSION_FACTS,
    WRITTEN,
    parts,
)
from hasse.index.errors import DamagedIndexError, FormatVersionError
from hasse.index.text.sources import TextSource
from hasse.index.types import (
    CaptionRow,
    DescribedImage,
    FoundCaption,
    ImageRow,
    Kind,
    Metadata,
    ModelIdentity,
    NamedImage,
    PathRow,
    SourcedText,
    UnreadableFile,
    VersionRow,
)

_OfImage = TypeVar("_OfImage", CaptionRow, PathRow)


class Catalog(Database):
    """The tables of one index, and what is read from them; `mutations` has what is written."""

    def __init__(self, url: str | sql.URL, lock_seconds: float = LOCK_SECONDS) -> None:
        """Name the database; see `Database`."""
        super().__init__(url, lock_seconds)
        self._lookups: dict[str, str] = {}  # those that were needed

    def exists(self) -> bool:
        """Tell whether the database holds our tables and the row that names the model."""
        with self.reading() as connection:
            return are_ours(connection)

    def format(self) -> int:
        """Return the number of the format."""
        with self.reading() as connection:
            return _format(connection)

    def generation(self) -> int:
        """Return the visible generation: one small query.

        Raises:
            CatalogUnreachableError: there is another file in the place of the one that is open.
            DamagedIndexError: there is no number.
        """
        self.check_file()
        with self.reading() as connection:
            found = connection.execute(sql.select(META.c.generation)).scalar_one()
        if not isinstance(found, int):
            raise DamagedIndexError(
                f"{self.url.database}: the row of the table '{META.name}' was changed"
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
            version = _format(connection)
            if version != FORMAT:
                raise _other_format(self.url, version)
            (meta,) = whole_rows(connection, META)
            names = set(connection.execute(sql.select(SEGMENTS.c.name)).scalars())
            records = [record for name, record in known.items() if name in names]
            for part in parts(sorted(names - known.keys())):
                fresh = whole_rows(connection, SEGMENTS, SEGMENTS.c.name.in_(part))
                records += map(_segment, fresh)
            seen = min((r.generation for r in records if r.name not in known), default=since)
            after = DELETED.c.generation > min(seen, since)
            deleted = whole_rows(connection, DELETED, after)
        return State(
            model=model_of(meta),
            generation=meta.generation,
            segments=tuple(sorted(records, key=lambda s: (s.generation, s.name))),
            deleted=tuple(Deletion(row.kind, row.id, row.generation) for row in deleted),
        )

    def model(self) -> ModelIdentity:
        """Return the model that made the visible points."""
        with self.reading() as connection:
            (meta,) = whole_rows(connection, META)
        return model_of(meta)

    def names(self) -> set[str]:
        """Return the names of the visible segments."""
        return {row.name for row in self._read(sql.select(SEGMENTS.c.name))}

    def images(self, ids: Iterable[int]) -> dict[int, ImageRow]:
        """Return the images there are among `ids`, by id."""
        (rows,) = self._look_up("images", ids)
        return {row[0]: ImageRow._make(row) for row in rows}

    def described_images(self, ids: Iterable[int]) -> dict[int, DescribedImage]:
        """Return what `images`, `captions_of` and `paths_of` do, of one instant."""
        wanted = list(ids)
        images, captions, paths = self._look_up("described images", wanted)
        captions_of = _by_image(CaptionRow, wanted, captions)
        paths_of = _by_image(PathRow, wanted, paths)
        return {
            row.id: DescribedImage(row, captions_of[row.id], paths_of[row.id])
            for row in map(ImageRow._make, images)
        }

    def image_hits(self, ids: Iterable[int]) -> tuple[dict[int, NamedImage], int]:
        """Return the images there are among `ids`, and which generation last removed one of them.

        Their captions are in order of caption id. Of an answer of an older generation, an id that
        was removed may be another image's by now.
        """
        rows, removal = self._look_up("image hits", ids)
        return {row[0]: NamedImage._make(row) for row in rows}, removal

    def hit_texts(self, hits: Mapping[int, NamedImage]) -> dict[int, list[SourcedText]]:
        """Return all texts of each of some images, the most telling sources first."""
        (rows,) = self._look_up("texts of images", hits)
        others: dict[int, list[SourcedText]] = {}
        for image, source, _, text in sorted(rows):
            others.setdefault(image, []).append(SourcedText(source, text))
        return {
            id_: sourced(hit.file_name, hit.paths, hit.captions, others.get(id_, ()))
            for id_, hit in hits.items()
        }

    def caption_hits(self, ids: Iterable[int]) -> tuple[dict[int, FoundCaption], int]:
        """Return the captions there are among `ids`, and which generation last removed one."""
        rows, removal = self._look_up("caption hits", ids)
        return {row[0]: FoundCaption._make(row) for row in rows}, removal

    def image_of(self, sha256: str) -> ImageRow | None:
        """Return the first image whose picture has these contents, if it was hashed."""
        same = sql.select(*IMAGE_FACTS).where(IMAGES.c.sha256 == sha256, HASHED)
        rows = self._read(same.order_by(IMAGES.c.id).limit(1))
        return ImageRow._make(rows[0]) if rows else None

    def images_below(self, folder: str) -> list[ImageRow]:
        """Return the images whose pictures lie in a folder of the index."""
        below = sql.select(*IMAGE_FACTS).where(
            IMAGES.c.path.startswith(f"{folder}/", autoescape=True)
        )
        return [ImageRow._make(row) for row in self._read(below)]

    def largest_ids(self) -> dict[Kind, int]:
        """Return the largest id below `FAR_IDS` that an image, and a caption, has or had; or 0."""
        with self.reading() as connection:
            return {
                "image": largest_id(connection, "image"),
                "caption": largest_id(connection, "caption"),
            }

    def free_ids(self, kind: Kind, largest: int) -> Iterator[int]:
        """Yield ids that no row of `kind` has or had, in order; the first is after `largest`.

        `largest` is that of `largest_ids`, or larger.
        """
        yield from range(largest + 1, FAR_IDS)
        table = IMAGES if kind == "image" else CAPTIONS
        far = sql.select(table.c.id).where(table.c.id >= FAR_IDS)
        gone = sql.select(DELETED.c.id).where(DELETED.c.kind == kind, DELETED.c.id >= FAR_IDS)
        used = {row.id for row in self._read(far.union(gone))}
        yield from (id_ for id_ in range(FAR_IDS, LARGEST_ID + 1) if id_ not in used)

    def paths_of(self, image_ids: Iterable[int]) -> dict[int, list[PathRow]]:
        """Return the files of each image, by image id, in order of their paths."""
        wanted = list(image_ids)
        (rows,) = self._look_up("paths of images", wanted)
        return _by_image(PathRow, wanted, rows)

    def all_paths(self) -> list[PathRow]:
        """Return the files of all images."""
        return [PathRow._make(row) for row in self._read(sql.select(*PATH_FACTS))]

    def sha256s(self) -> dict[int, str]:
        """Return the SHA-256 of each image's picture, by image id; "" where it is not known."""
        rows = self._read(sql.select(IMAGES.c.id, IMAGES.c.sha256))
        return {row.id: row.sha256 for row in rows}

    def versions(self) -> dict[int, VersionRow]:
        """Return what is noted of each image that has been looked at, by its id."""
        rows = map(VersionRow._make, self._read(sql.select(*VERSION_FACTS)))
        return {row.image_id: row for row in rows}

    def sidecars(self) -> dict[int, str]:
        """Return which state of its sidecars was read for each image; see `Metadata`."""
        rows = self._read(sql.select(METADATA.c.image_id, METADATA.c.sidecars))
        return {row.image_id: row.sidecars for row in rows}

    def metadata(self, image_id: int) -> Metadata:
        """Return the metadata of an image, with all of its texts; empty where there is none."""
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

    def removed(self) -> tuple[set[str], set[str]]:
        """Return the SHA-256 and the paths of files whose images were removed by name."""
        rows = self._read(sql.select(REMOVED.c.sha256, REMOVED.c.path))
        return {row.sha256 for row in rows} - {""}, {row.path for row in rows} - {""}

    def unreadable(self) -> list[UnreadableFile]:
        """Return the files that could not be decoded."""
        return [UnreadableFile._make(row) for row in self._read(sql.select(*UNREADABLE_FACTS))]

    def all_rows(self) -> tuple[list[ImageRow], list[CaptionRow]]:
        """Return all images and all captions, of one instant, each in order of their ids."""
        images = sql.select(*IMAGE_FACTS).order_by(IMAGES.c.id)
        captions = sql.select(*CAPTION_FACTS).order_by(CAPTIONS.c.id)
        with self.reading() as connection:
            return (
                [ImageRow._make(row) for row in connection.execute(images)],
                [CaptionRow._make(row) for row in connection.execute(captions)],
            )

    def captions(self, ids: Iterable[int]) -> dict[int, CaptionRow]:
        """Return the captions there are among `ids`, by id."""
        (rows,) = self._look_up("captions", ids)
        return {row[0]: CaptionRow._make(row) for row in rows}

    def captions_of(self, image_ids: Iterable[int]) -> dict[int, list[CaptionRow]]:
        """Return the captions of each image, by image id, in order of caption id."""
        wanted = list(image_ids)
        (rows,) = self._look_up("captions of images", wanted)
        return _by_image(CaptionRow, wanted, rows)

    def count_with_text(self, source: TextSource) -> int:
        """Return how many images have a text of a source, be it an empty one."""
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
        """Tell whether there are captions of people, and whether there are some of models."""
        by_people = (
            sql.select(CAPTIONS.c.id).outerjoin(WRITTEN).where(WRITTEN.c.caption_id.is_(None))
        )
        found = sql.select(by_people.exists(), sql.select(WRITTEN.c.caption_id).exists())
        ((people, models),) = self._read(found)
        return bool(people), bool(models)

    def _look_up(self, name: str, ids: Iterable[int]) -> list[Any]:
        """Return what one of `LOOKUPS` gives of `ids`, most of it lists of rows."""
        wanted = json.dumps(list({int(id_) for id_ in ids}))
        if name not in self._lookups:
            self._lookups[name] = lookup(name, self.dialect)
        return [json.loads(text) for text in self.fetch(self._lookups[name], wanted)]

    def _read(self, statement: sql.Executable) -> Sequence[Any]:
        with self.reading() as connection:
            return connection.execute(statement).all()


def _other_format(url: sql.URL, version: int) -> FormatVersionError:
    if version > FORMAT:
        made, remedy = "a newer version of Hasse", "install that version or a later one"
    elif version in BEFORE:
        made, remedy = "an earlier version", "open it once where it can be written"
    else:
        made, remedy = "a version before 0.2.0", "build the index again, or use that version"
    return FormatVersionError(
        f"{url.database} has the format {version} of {made}, and this version reads {FORMAT}: "
        f"{remedy}"
    )


def _format(connection: Connection) -> int:
    found: int = connection.execute(sql.select(META.c.format)).scalar_one()
    return found


def _by_image(
    kind: type[_OfImage], image_ids: Iterable[int], rows: Iterable[list[Any]]
) -> dict[int, list[_OfImage]]:
    found: dict[int, list[_OfImage]] = {image: [] for image in image_ids}
    for row in map(kind._make, sorted(rows)):
        found[row.image_id].append(row)
    return found


def _segment(row: Any) -> SegmentRecord:
    files = file_records(json.loads(row.files))
    return SegmentRecord(
        row.name, row.kind, row.rows, row.dimension, row.dtype, row.score, files, row.generation
    )


def _count(connection: Connection, table: Table) -> int:
    return int(connection.execute(sql.select(sql.func.count()).select_from(table)).scalar_one())


def largest_id(connection: Connection, kind: Kind) -> int:
    """Return the largest id below `FAR_IDS` that a row of a kind has or had; 0 if there is none."""
    table = IMAGES if kind == "image" else CAPTIONS
    present = sql.select(sql.func.max(table.c.id)).where(table.c.id < FAR_IDS)
    gone = sql.select(sql.func.max(DELETED.c.id)).where(
        DELETED.c.kind == kind, DELETED.c.id < FAR_IDS
    )
    return max(0, *(int(connection.execute(ids).scalar() or 0) for ids in (present, gone)))
