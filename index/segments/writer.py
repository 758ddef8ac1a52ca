"""The one writer of an index: segment folders first, then the transaction that shows them."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from index import durable
from index.catalog import mutations
from index.catalog.catalog import Catalog
from index.catalog.records import SegmentRecord
from index.catalog.validation import check_texts, checked_ids
from index.errors import BadRowsError, disk_full_named
from index.segments import leases
from index.segments.compaction import Merged
from index.segments.segment import SEGMENTS_FOLDER
from index.staging import STAGING, staged_names
from index.types import CaptionRow, ImageRow, Kind

LOCK = "lock"

_PARTIAL = ".partial-"


class Writer:
    """Changes an index while its lock is held; get one from `writing`."""

    def __init__(self, folder: Path, catalog: Catalog) -> None:
        self.folder = folder
        self.catalog = catalog

    @property
    def segments(self) -> Path:
        """Where the segment folders are."""
        return self.folder / SEGMENTS_FOLDER

    def workspace(self) -> Path:
        """Return a new folder for a segment that nobody sees yet."""
        return self.segments / f"{_PARTIAL}{secrets.token_hex(6)}"

    def publish(self, *finished: tuple[Path, SegmentRecord]) -> None:
        """Move finished segment folders to their names, durably; `commit` makes them visible."""
        places = [self.segments / record.name for _, record in finished]
        for (folder, _), place in zip(finished, places, strict=True):
            durable.move(folder, place)
        if places:
            durable.settle(places)

    def check_rows(
        self,
        images: Sequence[ImageRow],
        captions: Sequence[CaptionRow],
        before: tuple[Sequence[ImageRow], Sequence[CaptionRow]] = ((), ()),
    ) -> None:
        """Refuse ids that are taken and captions whose image is neither here nor given.

        `before` are images and captions that will be committed together with these.

        Raises:
            BadRowsError: the message names the first such id.
        """
        coming = [{row.id for row in before[0]}, {row.id for row in before[1]}]
        given: list[tuple[Kind, list[int]]] = [
            ("image", [row.id for row in images]),
            ("caption", [row.id for row in captions]),
        ]
        check_texts(images)
        check_texts(captions)
        with self.catalog.reading() as connection:
            for (kind, ids), soon in zip(given, coming, strict=True):
                checked_ids(kind, ids)
                if taken := mutations.existing(connection, kind, ids) | soon.intersection(ids):
                    raise BadRowsError(
                        f"{kind} {min(taken)} is in the index already: remove its image first, "
                        "or give the new one another id"
                    )
            wanted = {row.image_id for row in captions} - {row.id for row in images} - coming[0]
            absent = wanted - mutations.existing(connection, "image", sorted(wanted))
        if absent:
            raise BadRowsError(
                f"there are captions of image {min(absent)}, which is not in the index: add the "
                "image with them"
            )

    def commit(
        self,
        records: Sequence[SegmentRecord],
        images: Iterable[ImageRow] = (),
        captions: Iterable[CaptionRow] = (),
    ) -> int:
        """Make published segments and their rows visible, all at once; return the generation."""
        with self.catalog.writing() as connection:
            generation = mutations.raise_generation(connection)
            mutations.insert_images(connection, images)
            mutations.insert_captions(connection, captions)
            mutations.insert_segments(connection, records, generation)
        return generation

    def remove(self, image_ids: Sequence[int]) -> int:
        """Remove images and their captions; return the generation.

        Raises:
            BadRowsError: there is no such image.
        """
        with self.catalog.writing() as connection:
            absent = set(image_ids) - mutations.existing(connection, "image", image_ids)
            if absent:
                raise BadRowsError(
                    f"image {min(absent)} is not in the index: remove only images that are"
                )
            generation = mutations.raise_generation(connection)
            mutations.delete_images(connection, image_ids, generation)
        return generation

    def replace(self, merged: Merged) -> int:
        """Show a published segment in place of those it was merged from; return the generation.

        It is as old as the generation they were read in, so that what was deleted since is deleted
        in it too. Deletions that no row needs any more are forgotten, once all readers have
        followed them: one that has not is told by them that a hit of its is another row by now.
        """
        seen = leases.oldest(self.folder, merged.generation)
        with self.catalog.writing() as connection:
            generation = mutations.raise_generation(connection)
            mutations.drop_segments(connection, merged.names)
            if merged.record is not None:
                mutations.insert_segments(connection, [merged.record], merged.generation)
            mutations.forget_deletions(connection, merged.kind, merged.needed, seen)
        return generation

    def sweep(self) -> list[Path]:
        """Remove the segment folders that no generation shows and nobody needs; return them.

        They are what a writer left that was killed or ran out of disk, and what was merged away
        and is no longer read.
        """
        present = {path.name for path in self.segments.iterdir()}
        staging = self.folder / STAGING
        if present <= self.catalog.names() and not staging.exists():
            return []
        self.catalog.settle()
        orphans = present - self.catalog.names()
        generation = self.catalog.generation()
        if generation == 0:
            orphans -= staged_names(self.folder)
        else:
            durable.remove(staging)
        if leases.oldest(self.folder, generation) < generation:
            orphans = {name for name in orphans if name.startswith(_PARTIAL)}
        swept = [self.segments / name for name in sorted(orphans)]
        for orphan in swept:
            durable.remove(orphan)
        return swept


@contextmanager
def writing(folder: Path, catalog: Catalog, patience: float) -> Iterator[Writer]:
    """Hold the index's lock, swept of what killed writers left, and yield its writer.

    Raises:
        IndexLockedError: another process is writing, and was after `patience` seconds.
        DiskFullError: no room; what was written is taken away again.
    """
    with disk_full_named(folder), durable.locked(folder / LOCK, patience):
        writer = Writer(folder, catalog)
        writer.sweep()
        try:
            yield writer
        except Exception:
            writer.sweep()
            raise
