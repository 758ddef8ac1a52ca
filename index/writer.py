"""The one writer of an index: segment folders first, then the transaction that shows them."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from index import changes, durable
from index.catalog import Catalog
from index.errors import BadRowsError, disk_full_named
from index.points import check_texts, checked_ids
from index.records import SegmentRecord
from index.staging import SEGMENTS, STAGING, staged_names
from index.terms import CaptionRow, ImageRow, Kind

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
        return self.folder / SEGMENTS

    def workspace(self) -> Path:
        """Return a new folder for a segment that nobody sees yet."""
        return self.segments / f"{_PARTIAL}{secrets.token_hex(6)}"

    def publish(self, folder: Path, record: SegmentRecord) -> None:
        """Move a finished segment folder to its name, durably; `commit` makes it visible."""
        durable.rename(folder, self.segments / record.name)

    def check_rows(self, images: Sequence[ImageRow], captions: Sequence[CaptionRow]) -> None:
        """Refuse ids that are taken and captions whose image is neither here nor given.

        Raises:
            BadRowsError: the message names the first such id.
        """
        given: list[tuple[Kind, list[int]]] = [
            ("image", [row.id for row in images]),
            ("caption", [row.id for row in captions]),
        ]
        check_texts(images)
        check_texts(captions)
        with self.catalog.reading() as connection:
            for kind, ids in given:
                checked_ids(kind, ids)
                if taken := changes.existing(connection, kind, ids):
                    raise BadRowsError(
                        f"{kind} {min(taken)} is in the index already: remove its image first, "
                        "or give the new one another id"
                    )
            wanted = {row.image_id for row in captions} - {row.id for row in images}
            absent = wanted - changes.existing(connection, "image", sorted(wanted))
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
            generation = changes.raise_generation(connection)
            changes.insert_images(connection, images)
            changes.insert_captions(connection, captions)
            changes.insert_segments(connection, records, generation)
        return generation

    def remove(self, image_ids: Sequence[int]) -> int:
        """Remove images and their captions; return the generation.

        Raises:
            BadRowsError: there is no such image.
        """
        with self.catalog.writing() as connection:
            absent = set(image_ids) - changes.existing(connection, "image", image_ids)
            if absent:
                raise BadRowsError(
                    f"image {min(absent)} is not in the index: remove only images that are"
                )
            generation = changes.raise_generation(connection)
            changes.delete_images(connection, image_ids, generation)
        return generation

    def sweep(self) -> list[Path]:
        """Remove the segment folders that no generation shows and no build needs; return them.

        They are what a writer left that was killed or ran out of disk.
        """
        state = self.catalog.state()
        known = {record.name for record in state.segments}
        if state.generation == 0:
            known |= staged_names(self.folder)
        else:
            durable.remove(self.folder / STAGING)
        orphans = [path for path in self.segments.iterdir() if path.name not in known]
        for orphan in orphans:
            durable.remove(orphan)
        return orphans


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
