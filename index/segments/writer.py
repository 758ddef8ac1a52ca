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
from hasse.index.catalog import documents, given, mutations
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
from hasse.index.types import KINDS, FolderRow, Ids, Kind, ModelIdentity

LOCK = "lock"
LOCK_TIMEOUT = 10.0  # seconds that a change waits for other writers

_PARTIAL = ".partial-"

WrittenSegment: TypeAlias = tuple[Path, SegmentRecord]  # its folder and its record


@dataclass(frozen=True, slots=True, eq=False)
class MergedSegments:
    """The `names` of segments of one kind, and the `segment` that replaces them.

    Without a live row there is no replacement. The rows were live in `generation`. Deletions of
    `needed_ids` must stay in the catalog, because they apply to other segments too.
    """

    kind: Kind
    names: list[str]
    segment: WrittenSegment | None
    generation: int
    needed_ids: Ids


class Writer:
    """Changes an index while its lock is held; `writing` yields one."""

    def __init__(
        self,
        folder: Path,
        catalog: Catalog,
        model: ModelIdentity,
        thresholds: Thresholds = DEFAULT,
    ) -> None:
        """Write to an index; each commit fails if the index no longer has the points of `model`."""
        self.folder = folder
        self.catalog = catalog
        self.model = model
        self.thresholds = thresholds
        self.segments = folder / SEGMENTS_FOLDER

    def workspace(self) -> Path:
        """Return a new folder for a segment that is not visible yet."""
        return self.segments / f"{_PARTIAL}{secrets.token_hex(6)}"

    def publish(self, *segments: WrittenSegment) -> list[SegmentRecord]:
        """Move written segments to their names, durably; `commit` makes them visible."""
        targets = [self.segments / record.name for _, record in segments]
        for (folder, _), target in zip(segments, targets, strict=True):
            durable.move(folder, target)
        if targets:
            durable.settle(targets)
        return [record for _, record in segments]

    def change(self, change: Change) -> int:
        """Make a change visible, all at once; return the generation.

        Raises:
            BadRowsError: a new id exists, or an id to replace or remove does not.
            BadPointsError: a point cannot be stored; the message names the row.
        """
        additions = {kind: change.checked_additions(kind, self.model) for kind in KINDS}
        self._check_ids(change, {kind: ids for kind, (ids, _) in additions.items()})
        segments: list[WrittenSegment] = []
        for kind, (ids, points) in additions.items():
            if len(ids):
                folder = self.workspace()
                record = write_segment(folder, kind, self.model.score, ids, points, self.thresholds)
                segments.append((folder, record))
        records = self.publish(*segments)
        replaced_ids = change.replaced_images
        new = [row for row in change.images if row.id not in replaced_ids]
        replaced = [row for row in change.images if row.id in replaced_ids]
        removed_ids = [*change.removed_images, *change.removed_by_name]
        with_texts = {image_id for texts in change.texts.values() for image_id in texts}
        required = [*removed_ids, *(row.id for row in (*replaced, *change.rows)), *with_texts]
        with self._next_generation(required) as (connection, generation):
            mutations.remember_removed(connection, change.removed_by_name)
            touched = mutations.image_ids_of(connection, change.removed_captions)
            mutations.delete_images(connection, removed_ids, generation)
            mutations.delete_captions(connection, change.removed_captions, generation)
            mutations.delete_points(connection, "image", sorted(replaced_ids), generation)
            captioned = {row.image_id for row in change.captions}
            touched |= captioned | {row.id for row in (*change.images, *change.rows)}
            touched |= {*change.paths, *change.metadata, *with_texts}
            mutations.delete_generated_captions(connection, captioned | replaced_ids, generation)
            mutations.forget_versions(connection, sorted(replaced_ids))
            mutations.replace_texts(
                connection, "text in the picture", dict.fromkeys(replaced_ids, ())
            )
            given.inherit(connection, mutations.changed_pictures(connection, replaced))
            given.replace(connection, change.given)
            for row in (*replaced, *change.rows):
                mutations.replace_image(connection, row)
            mutations.insert_images(connection, new)
            mutations.restore_keywords(connection, change.images)
            mutations.replace_paths(connection, change.paths)
            mutations.replace_metadata(connection, change.metadata)
            for source, texts in change.texts.items():
                mutations.replace_texts(connection, source, texts)
            mutations.replace_versions(connection, change.versions)
            mutations.insert_captions(connection, change.captions)
            mutations.remember_folders(connection, change.folders)
            paths = {row.path for rows in change.paths.values() for row in rows}
            mutations.forget_removed(
                connection, {row.sha256 for row in change.images}, {*paths, *change.gone_paths}
            )
            mutations.replace_unreadable(connection, change.unreadable)
            mutations.insert_segments(connection, records, generation)
            documents.refresh(connection, touched)
        return generation

    def rebuild_text_index(self) -> int:
        """Rebuild the text index from the other tables; return the generation."""
        with self._next_generation() as (connection, generation):
            documents.rebuild(connection)
        return generation

    def forget_kept_texts(self) -> None:
        """Forget what people gave to pictures that are gone."""
        with self._next_generation() as (connection, _):
            given.forget_absent(connection)

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

    def replace(self, merged: MergedSegments) -> int:
        """Show a merged segment in place of its sources; return the generation.

        The merged segment gets the generation in which its sources were read, so that later
        deletions apply to it. Deletions that no row needs are dropped when no reader is older than
        them: an older reader needs them to detect that an id of its hits was reused.
        """
        oldest = leases.oldest_lease(self.folder, self.catalog, merged.generation)
        records = self.publish(merged.segment) if merged.segment is not None else []
        with self._next_generation() as (connection, generation):
            mutations.drop_segments(connection, merged.names)
            mutations.insert_segments(connection, records, merged.generation)
            mutations.forget_deletions(connection, merged.kind, merged.needed_ids, oldest)
            documents.merge(connection)
        return generation

    def replace_model(
        self, model: ModelIdentity, records: Sequence[SegmentRecord], ids: Mapping[Kind, Ids]
    ) -> int:
        """Show published segments of another model in place of all others; return the generation.

        `ids` are the ids in the new segments. All other images are removed, with their captions.

        Raises:
            BadRowsError: an id is not in the index, or a caption is missing.
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
                    f"{self.folder} was changed while it was re-encoded: run the same command again"
                )
            mutations.drop_all_segments(connection)
            mutations.insert_segments(connection, records, generation)
        return generation

    def sweep(self) -> list[Path]:
        """Remove segment folders that no generation and no reader uses; return their paths.

        A writer that was killed or filled the disk leaves such folders. A merge leaves them until
        no reader uses the old segments.
        """
        present = {path.name for path in self.segments.iterdir()}
        staging = self.folder / STAGING
        if present <= self.catalog.segment_names() and not staging.exists():
            return []
        self.catalog.settle()
        generation = self.catalog.generation()
        # A build needs its staged points until the first generation, and a re-encoding until the
        # index has the new model.
        if generation and staged_model(self.folder) in (None, self.catalog.model().fingerprint):
            durable.remove(staging)
        orphans = present - self.catalog.segment_names()
        if leases.oldest_lease(self.folder, self.catalog, generation) < generation:
            orphans = {name for name in orphans if name.startswith(_PARTIAL)}
        swept = [self.segments / name for name in sorted(orphans)]
        for orphan in swept:
            durable.remove(orphan)
        return swept

    @contextmanager
    def _next_generation(self, required: Sequence[int] = ()) -> Iterator[tuple[Connection, int]]:
        """Open the transaction of the next generation; yield the connection and its number.

        Raises:
            BadRowsError: one of the `required` images does not exist.
        """
        with self.catalog.writing() as connection:
            _require_images(connection, required)
            yield connection, mutations.raise_generation(connection, self.model)

    def _check_ids(self, change: Change, new_ids: Mapping[Kind, Ids]) -> None:
        with self.catalog.reading() as connection:
            for kind, ids in new_ids.items():
                duplicates = mutations.existing_ids(connection, kind, ids.tolist())
                if kind == "image":
                    duplicates -= change.replaced_images
                if duplicates:
                    raise BadRowsError(
                        f"{kind} {min(duplicates)} is in the index already: remove its image "
                        "first, or give the new one another id"
                    )
            image_ids = {row.image_id for row in change.captions}
            image_ids -= {row.id for row in change.images}
            missing = image_ids - mutations.existing_ids(connection, "image", sorted(image_ids))
        if missing:
            raise BadRowsError(
                f"there are captions of image {min(missing)}, which is not in the index: add the "
                "image with them"
            )


def _require_images(connection: Connection, image_ids: Sequence[int]) -> None:
    missing = set(image_ids) - mutations.existing_ids(connection, "image", image_ids)
    if missing:
        raise BadRowsError(
            f"image {min(missing)} is not in the index: change or remove only images that are"
        )


@contextmanager
def writing(
    folder: Path,
    catalog: Catalog,
    model: ModelIdentity,
    timeout: float,
    thresholds: Thresholds = DEFAULT,
) -> Iterator[Writer]:
    """Take the index's lock, remove files that killed writers left, and yield a writer.

    Raises:
        IndexLockedError: another process was still writing after `timeout` seconds.
        DiskFullError: no room; the new files are removed.
    """
    with disk_full_reported(folder), locked(folder, catalog, LOCK, timeout):
        writer = Writer(folder, catalog, model, thresholds)
        writer.sweep()
        try:
            yield writer
        except Exception:
            writer.sweep()
            raise
