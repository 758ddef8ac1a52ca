"""Brings an index up to date with folders of pictures: carries out a plan of `plan.py`.

Every step is one generation. After a sync that was stopped or killed, the next one continues.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hasse.index.catalog.schema import batched
from hasse.index.segments.change import Change
from hasse.index.segments.compaction import ProgressCallback
from hasse.index.store import Index
from hasse.index.types import ImageRow, Metadata, PathRow, UnreadableFile
from hasse.models.datasets import Image
from hasse.models.datasets.builder import SPLITS, note_unusable
from hasse.models.images.decoding import date_taken, open_picture, read_metadata
from hasse.models.images.limits import PictureError
from hasse.models.images.metadata import PictureMetadata
from hasse.models.images.sidecars import sidecars_of
from hasse.service.writing.draft import IMAGES_PER_CHANGE, Draft
from hasse.service.writing.folders.catalog_state import ANY_VERSION, VERSION, CatalogState
from hasse.service.writing.folders.encoders import Encoders
from hasse.service.writing.folders.file_captions import texts_of
from hasse.service.writing.folders.plan import Counts, Plan
from hasse.service.writing.folders.scan import Scan, SeenFile, read_digests
from hasse.service.writing.metadata import metadata_of

if TYPE_CHECKING:
    from hasse.service.writing.image_source import EncodedImages


class _PlanOutdated(Exception):
    """Another writer has changed the index since the plan was made."""


class FolderSync:
    """Brings one index up to date with a scan.

    Args:
        index: the index to change.
        scan: the files of the folders.
        remove: remove images that have no file any more.
        allow_empty: remove them also where a folder is missing, empty or on another device.

    Attributes:
        plan: the changes that are left to make.
        unknown_captions: new captions without a word that the model knows.
    """

    def __init__(
        self, index: Index, scan: Scan, *, remove: bool, allow_empty: bool = False
    ) -> None:
        self._index = index
        state = CatalogState.of(index, scan.roots.values())
        digests = read_digests(state.files_to_hash(scan), scan.skipped)
        self.plan = Plan.of(state, scan, digests, remove=remove, allow_empty=allow_empty)
        self._unusable: set[str] = set()
        self._unreadable_files: dict[str, UnreadableFile | None] = dict(self._known_unreadable())
        self._pictures = {
            sha256: self._image(files[0]) for sha256, files in self.plan.new_files.items()
        }
        for file in self.plan.withheld_files:
            scan.skipped.add(
                file.name, "removed before", detail="add the file by name to take it back"
            )
        self._counts = Counts(
            moved=self.plan.moved, copies=self.plan.copies, present=self.plan.present
        )
        self.unknown_captions: set[str] = set()

    @property
    def scan(self) -> Scan:
        """The files of the folders."""
        return self.plan.scan

    @property
    def _state(self) -> CatalogState:
        return self.plan.state

    def dry_run(self, encoders: Encoders) -> Counts:
        """Return the counts that `apply` would return, and skip the same files; change nothing."""
        self._encoders = encoders
        with ThreadPoolExecutor(thread_name_prefix="hasse-decode") as pool:
            errors = list(pool.map(self._decoding_error, self._pictures))
        for sha256, error in zip(list(self._pictures), errors, strict=True):
            if error is not None:
                self._note_unusable(sha256, error)
        self._plan_again(self._state)
        paths = self.plan.changed_paths()
        pictures: dict[int, str] = {}
        for at, sha256 in enumerate(self.plan.new_files):
            self._count_new(sha256)
            id_ = self.plan.replaced_images.get(sha256, -1 - at)  # a new image has none yet
            paths[id_], pictures[id_] = self.plan.new_paths(id_, sha256), sha256
        added, removed = self._caption_changes(paths, pictures)
        counts = self._counts
        counts.captions_added, counts.captions_removed = len(added), len(removed)
        counts.removed = len(self.plan.removed_images)
        return counts

    def apply(
        self, encoders: Encoders, progress: ProgressCallback = lambda done, total: None
    ) -> Counts:
        """Make all changes. Other processes may write meanwhile.

        Raises:
            HasseIndexError: there is no room, or another process is writing.
        """
        self._encoders = encoders
        if self._pictures:
            self._encode(progress)
            self._plan_again()
        self._until_written(self._update)
        return self._counts

    def _plan_again(self, state: CatalogState | None = None) -> None:
        """Plan what is left to do, by default for the visible generation."""
        state = state or CatalogState.of(self._index, self.scan.roots.values())
        self.plan = self.plan.again(state, self._unusable)

    def _until_written(self, write: Callable[[], None]) -> None:
        """Repeat a step with a new plan while other processes write before it."""
        while True:
            try:
                return write()
            except _PlanOutdated:
                self._plan_again()

    def _image(self, file: SeenFile) -> Image:
        split = SPLITS.get(file.split.lower())
        if split is None:
            self.scan.skipped.add(file.name, "unknown split", "in no split", file.split)
        return Image(0, file.name, Path(file.path), split or "")

    def _known_unreadable(self) -> Iterator[tuple[str, None]]:
        """Count unreadable files that have not changed since an earlier sync; yield the others."""
        for path, row in self._state.unreadable_files.items():
            file = self.scan.files.get(path)
            if file is not None and self._state.is_unreadable(file):
                self.scan.skipped.passed_over["unreadable file, named before"] += 1
            elif file is not None or any(
                Path(path).is_relative_to(folder) for folder in self.scan.named_folders
            ):
                yield row.path, None

    def _decoding_error(self, sha256: str) -> PictureError | None:
        limits = self._encoders.source().limits
        try:
            open_picture(self._pictures[sha256].path, limits, at_least=1)
        except PictureError as error:
            return error
        return None

    def _note_unusable(self, sha256: str, error: PictureError) -> None:
        """Skip every file of a picture that cannot be used, and remember the file."""
        for file in self.plan.new_files.get(sha256, ()):
            note_unusable(self.scan.skipped, file.name, Path(file.path), error)
            stamp = file.stamp
            is_lasting = error.reason in ("damaged", "not_a_picture")
            if stamp is not None and stamp.settled(self.scan.seen_at):
                path = self._state.locations.catalog_path(file.path)
                times = (stamp.size, stamp.modified, stamp.changed)
                version = VERSION if is_lasting else ANY_VERSION
                self._unreadable_files[path] = UnreadableFile(path, *times, version)
        self._unusable.add(sha256)

    def _encode(self, progress: ProgressCallback) -> None:
        """Add the new pictures, block by block. Each block is searchable when it is written."""
        usable = self._usable_pictures()
        if not usable:
            return
        sha256s = {self._pictures[sha256].path: sha256 for sha256 in usable}
        source = replace(self._encoders.source(), skipped=lambda line: None)
        images = [self._pictures[sha256] for sha256 in usable]
        done = 0
        for block in source.encode_blocks(self._encoders.load().model, images, IMAGES_PER_CHANGE):
            added = [sha256s[image.path] for image in block.images]
            self._until_written(partial(self._add_block, added, block))
            for image, error in block.unusable:
                self._note_unusable(sha256s[image.path], error)
            done += len(block.images) + len(block.unusable)
            progress(done, len(usable))

    def _usable_pictures(self) -> list[str]:
        """Return the SHA-256 of the new pictures, without some that cannot be decoded."""
        usable = list(self._pictures)
        for sha256 in filter(self._is_contested, list(usable)):
            if (error := self._decoding_error(sha256)) is not None:
                self._note_unusable(sha256, error)
                usable.remove(sha256)
        # Without a usable picture the model is not loaded: the watch of a folder with a damaged
        # picture comes here at every pass.
        while usable and (error := self._decoding_error(usable[0])) is not None:
            self._note_unusable(usable.pop(0), error)
        self._plan_again(self._state)
        return usable

    def _is_contested(self, sha256: str) -> bool:
        """Return whether a new picture has overwritten one file of an image with several files.

        Whether that picture can be decoded decides which picture the image has after the sync.
        """
        rows = (
            row
            for file in self.plan.new_files[sha256]
            for row in self._state.files.get(file.path, ())
        )
        return any(len(self._state.paths[row.image_id]) > 1 for row in rows)

    def _add_block(self, sha256s: Sequence[str], block: EncodedImages) -> None:
        plan = self.plan
        draft, paths = Draft(self._index.catalog), dict[int, list[PathRow]]()
        replaced = [
            plan.replaced_images[sha256] for sha256 in sha256s if sha256 in plan.replaced_images
        ]
        old = self._index.catalog.images(replaced)
        for sha256, image, facts, point in zip(
            sha256s, block.images, block.facts, block.points, strict=True
        ):
            if facts.sha256 != sha256:  # the file has changed since; the next sync reads it again
                self._unusable.add(sha256)
            elif sha256 in plan.new_files:  # else another process has added it
                id_ = plan.replaced_images.get(sha256)
                id_ = draft.new_image_id() if id_ is None else id_
                paths[id_] = plan.new_paths(id_, sha256)
                file = plan.new_files[sha256][0]
                stored = self._state.locations.catalog_path(file.path)
                added = old[id_].added if id_ in old else None
                metadata = self._metadata(file, facts.metadata)
                draft.add_image(
                    id_,
                    file.name,
                    stored,
                    image.split,
                    facts,
                    point,
                    added=added,
                    metadata=metadata,
                )
        if not draft.images:
            return
        change = self._with_captions(draft, paths)
        self._write(replace(change, replaced_images=frozenset(old) & draft.images.keys()))
        for row in draft.images.values():
            self._count_new(row.sha256)

    def _count_new(self, sha256: str) -> None:
        counts = self._counts
        counts.copies += len(self.plan.new_files[sha256]) - 1
        if sha256 in self.plan.replaced_images:
            counts.changed += 1
        else:
            counts.added += 1

    def _update(self) -> None:
        """Change the files, captions and metadata of images of the index, and remove images."""
        plan, paths = self.plan, self.plan.changed_paths() | self._corrected_dates()
        for part in batched(paths, IMAGES_PER_CHANGE):
            self._change_images({id_: paths[id_] for id_ in part})
        stale = self._stale_metadata()
        for part in batched(stale, IMAGES_PER_CHANGE):
            metadata = {id_: self._reread_metadata(stale[id_]) for id_ in part}
            self._write(Change(metadata=metadata))
        for part in batched(plan.removed_images, IMAGES_PER_CHANGE):
            self._write(Change(removed_images=part))
            self._counts.removed += len(part)
        files_before = {file.path: file for file in self._state.unreadable_files.values()}
        unreadable = {
            path: file
            for path, file in self._unreadable_files.items()
            if file != files_before.get(path)
        }
        self._unreadable_files = {}
        folders = self._state.changed_folders(self.scan, plan.unreachable)
        if folders or unreadable or plan.lapsed:
            self._write(Change(gone_paths=plan.lapsed, unreadable=unreadable))

    def _corrected_dates(self) -> dict[int, list[PathRow]]:
        """Return the files of images whose file was just written, and has another date than they.

        Their size and times are not stored yet, so that they cannot tell.
        """
        absolute = self._state.locations.absolute
        unsettled = {
            id_: rows
            for id_, rows in self.plan.paths.items()
            if any(row.modified is None and absolute(row.path) in self.scan.files for row in rows)
        }
        return {
            id_: unsettled[id_]
            for id_, row in self._index.catalog.images(list(unsettled)).items()
            if row.taken != date_taken(Path(absolute(row.path)))
        }

    def _stale_metadata(self) -> dict[int, SeenFile]:
        """Return the images whose sidecars have changed since, or were never read."""
        state, files = self._state, self.scan.files
        stale: dict[int, SeenFile] = {}
        for id_, rows in state.paths.items():
            seen = (files.get(state.locations.absolute(row.path)) for row in rows)
            file = next(
                (file for file in seen if file is not None and file.stamp is not None), None
            )
            if file is not None and file.sidecars not in ("", state.sidecars.get(id_)):
                stale[id_] = file
        return stale

    def _reread_metadata(self, file: SeenFile) -> Metadata:
        path = Path(file.path)
        return self._metadata(file, read_metadata(path, sidecars_of(path)))

    def _metadata(self, file: SeenFile, metadata: PictureMetadata) -> Metadata:
        for name, reason in metadata.faults.items():
            self.scan.skipped.add(file.name, f"sidecar {name} that cannot be read", detail=reason)
        return metadata_of(metadata, file.sidecars)

    def _change_images(self, paths: Mapping[int, list[PathRow]]) -> None:
        change = self._with_captions(Draft(self._index.catalog), paths)
        rows_before = self._index.catalog.images(list(paths))
        rows = [self._updated_row(row, paths[id_]) for id_, row in rows_before.items()]
        self._write(replace(change, rows=[row for row in rows if row != rows_before[row.id]]))

    def _updated_row(self, row: ImageRow, paths: Sequence[PathRow]) -> ImageRow:
        """Return the row of an image for its new files."""
        locations, first = self._state.locations, paths[0]
        changed = row._replace(sha256=self.plan.new_hashes.get(row.id, row.sha256))
        if all(path.path != row.path for path in paths):
            absolute = locations.absolute(first.path)
            file = self.scan.files.get(absolute)
            is_ours = not first.path.startswith("/")  # named by its bytes
            name = Path(absolute).name if file is None else file.name
            changed = changed._replace(
                path=first.path, file_name=row.file_name if is_ours else name
            )
        stamp = _stamp_of(paths, changed.path)
        if None in stamp or _stamp_of(self._state.paths[row.id], changed.path) != stamp:
            changed = changed._replace(taken=date_taken(Path(locations.absolute(changed.path))))
        return changed

    def _caption_changes(
        self, after: Mapping[int, Sequence[PathRow]], pictures: Mapping[int, str]
    ) -> tuple[list[tuple[int, str]], list[int]]:
        """Return the captions to add, with their image ids, and the ids of those to remove.

        `pictures` are the SHA-256 of new pictures: what people gave to them comes back. What people
        gave stays where a file says it no longer.
        """
        differing = {
            id_: (old, new)
            for id_, rows in after.items()
            if (old := texts_of(self._state.paths.get(id_, []))) != (new := texts_of(rows))
            or id_ in pictures
        }
        catalog, sha256s = self._index.catalog, {**self._state.sha256, **pictures}
        present = catalog.captions_of([id_ for id_ in differing if id_ in self._state.sha256])
        given = catalog.given_texts(sha256s[id_] for id_ in differing)
        added: list[tuple[int, str]] = []
        removed: list[int] = []
        for id_, (old, new) in differing.items():
            human = [caption for caption in present.get(id_, []) if caption.written_by is None]
            texts = given.get(sha256s[id_], ())
            kept = [text.text for text in texts if text.source == "caption"]
            gone = set(old) - {*new, *kept}
            removed += [caption.id for caption in human if caption.text in gone]
            present_texts = {caption.text for caption in human}
            wanted = dict.fromkeys([*new, *kept]) if id_ in pictures else new
            added += [(id_, text) for text in wanted if text not in present_texts]
        return added, removed

    def _with_captions(self, draft: Draft, paths: Mapping[int, Sequence[PathRow]]) -> Change:
        """Return a change of a draft, the files of images, and the captions of these files."""
        pictures = {id_: row.sha256 for id_, row in draft.images.items()}
        added, removed = self._caption_changes(paths, pictures)
        if added:
            checkpoint = self._encoders.load()
            texts = [text for _, text in added]
            self.unknown_captions.update(
                text for text in texts if not checkpoint.vocabulary.knows(text)
            )
            points = checkpoint.model.encode_captions(texts)
            for (id_, text), point in zip(added, points, strict=True):
                draft.add_caption(id_, text, point)
        return replace(draft.make_change(), paths=paths, removed_captions=removed)

    def _write(self, change: Change) -> None:
        folders = self._state.changed_folders(self.scan, self.plan.unreachable)
        with self._index.writing() as writer:
            if self._index.catalog.generation() != self._state.generation:
                raise _PlanOutdated
            self._state.generation = writer.change(replace(change, folders=folders))
        self._state.folders_before = (*self._state.folders_before, *folders)
        self._index.announce()
        self._counts.captions_added += len(change.captions)
        self._counts.captions_removed += len(change.removed_captions)


def _stamp_of(rows: Sequence[PathRow], path: str) -> tuple[int | None, ...]:
    return next(((row.size, row.modified) for row in rows if row.path == path), ())
