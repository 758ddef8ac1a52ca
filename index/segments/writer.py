"""The one writer of an index: segment folders first, then the transaction that shows them."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import sqlalchemy as sql
from sqlalchemy import Connection

from hasse.index import durable
from hasse.index.catalog import documents, mutations
from hasse.index.catalog.catalog import Catalog
from hasse.index.catalog.records import SegmentRecord
from hasse.index.catalog.schema import CAPTIONS, IMAGES
from hasse.index.errors import BadRowsError, disk_full_reported
from hasse.index.locking import locked
from hasse.index.segments import leases
from hasse.index.segments.change import Change
from hasse.index.segments.cost_model import DEFAULT, Thresholds
from hasse.index.segments.segment import SEGMENTS_FOLDER, write_segment
from hasse.index.segments.staging import STAGING, staged_model
from hasse.index.text.sources import TextSource
from hasse.index.types import (
    KINDS,
    FolderRow,
    Ids,
    Kind,
    ModelIdentity,
)

LOCK = "lock"
LOCK_TIMEOUT = 10.0  # seconds that a change waits for other writers

_PARTIAL = ".partial-"

Finished: TypeAlias = tuple[Path, SegmentRecord]  # a segment that is written, and where


@dataclass(frozen=True, slots=True, eq=False)
class Merged:
    """Segments of one kind and their replacement: `finished`, or nothing if no row is live.

    The rows are those that were live in `generation`. The deletions of the ids in `needed` must
    stay in the catalog, because rows of other segments are deleted by them.
    """

    kind: Kind
    names: list[str]
    finished: Finished | None
    generation: int
    needed: Ids


class Writer:
    """Changes an index while its lock is held; get one from `writing`."""

    def __init__(
        self,
        folder: Path,
        catalog: Catalog,
        model: ModelIdentity,
        thresholds: Thresholds = DEFAULT,
    ) -> None:
        """Write to an index whose points are made by `model`; that of another is refused."""
        self.folder = folder
        self.catalog = catalog
        self.model = model
        self.thresholds = thresholds
        self.segments = folder / SEGMENTS_FOLDER

    def workspace(self) -> Path:
        """Return a new folder for a segment that is not visible yet."""
        return self.segments / f"{_PARTIAL}{secrets.token_hex(6)}"

    def publish(self, *finished: Finished) -> list[SegmentRecord]:
        """Move finished segments to their names, durably; `commit` makes them visible."""
        places = [self.segments / record.name for _, record in finished]
        for (folder, _), place in zip(finished, places, strict=True):
            durable.move(folder, place)
        if places:
            durable.settle(places)
        return [record for _, record in finished]

    def change(self, change: Change) -> int:
        """Make a change visible, all at once; return the generation.

        Raises:
            BadRowsError: an id is taken, or one that is replaced or removed is not there.
            BadPointsError: a point cannot be stored; the message names the row.
        """
        added = {kind: change.checked(kind, self.model) for kind in KINDS}
        self._check_ids(change, {kind: ids for kind, (ids, _) in added.items()})
        finished: list[Finished] = []
        for kind, (ids, points) in added.items():
            if len(ids):
                place = self.workspace()
                record = write_segment(place, kind, self.model.score, ids, points, self.thresholds)
                finished.append((place, record))
        records = self.publish(*finished)
        new = [row for row in change.images if row.id not in change.replaced]
        replaced = [row for row in change.images if row.id in change.replaced]
        gone = [*change.removed_images, *change.removed_by_name]
        present = [*gone, *(row.id for row in (*replaced, *change.rows)), *change.keywords]
        with self._next_generation(present) as (connection, generation):
            mutations.remember_removed(connection, change.removed_by_name)
            touched = mutations.images_of(connection, change.removed_captions)
            mutations.delete_images(connection, gone, generation)
            mutations.delete_captions(connection, change.removed_captions, generation)
            mutations.delete_points(connection, "image", sorted(change.replaced), generation)
            captioned = {row.image_id for row in change.captions}
            touched |= captioned | {row.id for row in (*change.images, *change.rows)}
            touched |= {*change.paths, *change.metadata, *change.keywords}
            mutations.delete_written_captions(connection, captioned | change.replaced, generation)
            mutations.forget_versions(connection, sorted(change.replaced))
            mutations.replace_texts(
                connection, "text in the picture", dict.fromkeys(change.replaced, ())
            )
            for row in (*replaced, *change.rows):
                mutations.replace_image(connection, row)
            mutations.insert_images(connection, new)
            mutations.replace_paths(connection, change.paths)
            mutations.replace_metadata(connection, change.metadata)
            mutations.replace_texts(connection, "added keyword", change.keywords)
            mutations.replace_versions(connection, change.versions)
            mutations.insert_captions(connection, change.captions)
            mutations.remember_folders(connection, change.folders)
            seen = {row.path for rows in change.paths.values() for row in rows}
            mutations.forget_removed(
                connection, {row.sha256 for row in change.images}, {*seen, *change.lapsed}
            )
            mutations.replace_unreadable(connection, change.unreadable)
            mutations.insert_segments(connection, records, generation)
            documents.refresh(connection, touched)
        return generation

    def replace_texts(self, source: TextSource, texts: Mapping[int, Sequence[str]]) -> int:
        """Give images other texts of one source, such as those read from the picture.

        Returns the generation. Images that are not there any more are passed over.
        """
        with self._next_generation() as (connection, generation):
            present = mutations.existing(connection, "image", list(texts))
            mutations.replace_texts(connection, source, {id_: texts[id_] for id_ in present})
            documents.refresh(connection, present)
        return generation

    def rebuild_text_index(self) -> int:
        """Make the text index anew from the rows that it is about; return the generation."""
        with self._next_generation() as (connection, generation):
            documents.rebuild(connection)
        return generation

    def commit(
        self,
        records: Sequence[SegmentRecord],
        changes: Callable[[], Iterable[Change]] = list,
        folders: Iterable[FolderRow] = (),
    ) -> int:
        """Make published segments and the new rows of changes visible; return the generation."""
        with self._next_generation() as (connection, generation):
            for change in changes():
                mutations.insert_images(connection, change.images)
                mutations.replace_metadata(connection, change.metadata)
                mutations.replace_versions(connection, change.versions)
            for change in changes():
                mutations.insert_captions(connection, change.captions)
            mutations.remember_folders(connection, folders)
            mutations.insert_segments(connection, records, generation)
            documents.add_missing(connection)
        return generation

    def replace(self, merged: Merged) -> int:
        """Show a merged segment in place of those it was merged from; return the generation.

        It counts as old as the generation they were read in, so that later deletions apply to it
        too. Deletions that no row needs any more are forgotten once every reader has followed
        them: by them a reader that has not finds out that a hit of its is another row by now.
        """
        seen = leases.oldest_leased(self.folder, self.catalog, merged.generation)
        records = self.publish(merged.finished) if merged.finished is not None else []
        with self._next_generation() as (connection, generation):
            mutations.drop_segments(connection, merged.names)
            mutations.insert_segments(connection, records, merged.generation)
            mutations.forget_deletions(connection, merged.kind, merged.needed, seen)
            documents.merge(connection)
        return generation

    def replace_model(
        self, model: ModelIdentity, records: Sequence[SegmentRecord], ids: Mapping[Kind, Ids]
    ) -> int:
        """Show published segments of another model in place of all others; return the generation.

        `ids` are those in the segments. Images that are not among them are removed, with their
        captions.

        Raises:
            BadRowsError: the ids are not ids of the index, or captions are missing.
        """
        with self._next_generation() as (connection, generation):
            mutations.set_model(connection, model, generation)
            images = set(connection.execute(sql.select(IMAGES.c.id)).scalars())
            absent = images.difference(ids["image"].tolist())
            mutations.delete_images(connection, sorted(absent), generation)
            captions = set(connection.execute(sql.select(CAPTIONS.c.id)).scalars())
            if len(images) - len(absent) != len(ids["image"]) or captions != set(
                ids["caption"].tolist()
            ):
                raise BadRowsError(
                    f"{self.folder} was changed while it was encoded anew: run the same command "
                    "again"
                )
            mutations.drop_all_segments(connection)
            mutations.insert_segments(connection, records, generation)
        return generation

    def sweep(self) -> list[Path]:
        """Remove the segment folders that no generation and no reader uses; return them.

        A writer that was killed or ran out of disk leaves such folders. So does a merge, until
        nobody reads the old segments.
        """
        present = {path.name for path in self.segments.iterdir()}
        staging = self.folder / STAGING
        if present <= self.catalog.names() and not staging.exists():
            return []
        self.catalog.settle()
        generation = self.catalog.generation()
        # A build stages points until its first generation, and a re-encoding until the index is
        # one of its model.
        if generation and staged_model(self.folder) in (None, self.catalog.model().fingerprint):
            durable.remove(staging)
        orphans = present - self.catalog.names()
        if leases.oldest_leased(self.folder, self.catalog, generation) < generation:
            orphans = {name for name in orphans if name.startswith(_PARTIAL)}
        swept = [self.segments / name for name in sorted(orphans)]
        for orphan in swept:
            durable.remove(orphan)
        return swept

    @contextmanager
    def _next_generation(self, required: Sequence[int] = ()) -> Iterator[tuple[Connection, int]]:
        """Open the transaction that makes the next generation, and yield that number too.

        Raises:
            BadRowsError: one of the `required` images is not there.
        """
        with self.catalog.writing() as connection:
            _require_images(connection, required)
            yield connection, mutations.raise_generation(connection, self.model)

    def _check_ids(self, change: Change, added: Mapping[Kind, Ids]) -> None:
        with self.catalog.reading() as connection:
            for kind, ids in added.items():
                taken = mutations.existing(connection, kind, ids.tolist())
                if taken := taken - (change.replaced if kind == "image" else frozenset()):
                    raise BadRowsError(
                        f"{kind} {min(taken)} is in the index already: remove its image first, "
                        "or give the new one another id"
                    )
            wanted = {row.image_id for row in change.captions}
            wanted -= {row.id for row in change.images}
            absent = wanted - mutations.existing(connection, "image", sorted(wanted))
        if absent:
            raise BadRowsError(
                f"there are captions of image {min(absent)}, which is not in the index: add the "
                "image with them"
            )


def _require_images(connection: Connection, image_ids: Sequence[int]) -> None:
    absent = set(image_ids) - mutations.existing(connection, "image", image_ids)
    if absent:
        raise BadRowsError(f"image {min(absent)} is not in the index: remove only images that are")


@contextmanager
def writing(
    folder: Path,
    catalog: Catalog,
    model: ModelIdentity,
    timeout: float,
    thresholds: Thresholds = DEFAULT,
) -> Iterator[Writer]:
    """Take the index's lock, remove the leftovers of killed writers, and yield a writer.

    Raises:
        IndexLockedError: another process is writing, and was after `timeout` seconds.
        DiskFullError: no room; the files that were written are removed again.
    """
    with disk_full_reported(folder), locked(folder, catalog, LOCK, timeout):
        writer = Writer(folder, catalog, model, thresholds)
        writer.sweep()
        try:
            yield writer
        except Exception:
            writer.sweep()
            raise
