"""Bring an index up to date with folders of pictures: carry out what `plan` decides.

Every step is one generation. A call that is stopped or killed leaves what it has done, and the
next one goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hasse.index.catalog.schema import parts
from hasse.index.segments.change import Change
from hasse.index.store import Index
from hasse.index.types import ImageRow, Metadata, PathRow, UnreadableFile
from hasse.models.datasets import Image
from hasse.models.datasets.builder import SPLITS, note_unusable
from hasse.models.images.decoding import open_picture, read_metadata, taken_at
from hasse.models.images.limits import PictureError
from hasse.models.images.metadata import PictureMetadata
from hasse.models.images.sidecars import sidecars_of
from hasse.service.writing.draft import IMAGES_PER_CHANGE, Draft
from hasse.service.writing.folders.catalogued import ANY_VERSION, VERSION, Catalogued
from hasse.service.writing.folders.encoders import Encoders
from hasse.service.writing.folders.file_captions import texts_of
from hasse.service.writing.folders.plan import Counts, Plan, make_plan, path_row
from hasse.service.writing.folders.scan import Scan, SeenFile, read_digests
from hasse.service.writing.metadata import metadata_of

if TYPE_CHECKING:
    from hasse.service.writing.image_source import EncodedImages

ProgressCallback = Callable[[int, int], None]  # receives how many are done, of how many


class Overtaken(Exception):
    """Another writer has changed the index since the plan was made."""


class FolderSync:
    """Brings one index up to date with what a scan has found.

    Args:
        index: what is changed.
        scan: what the folders hold.
        remove: whether images go with the last of their files.
        allow_empty: whether they go too where a folder is missing or empty, or on another device.
    """

    def __init__(
        self, index: Index, scan: Scan, *, remove: bool, allow_empty: bool = False
    ) -> None:
        self._index = index
        self.scan = scan
        self._remove = remove
        self._allow_empty = allow_empty
        self._held = self._catalogued()
        self._digests = read_digests(self._held.unhashed(scan), scan.skipped)
        self._unreadable: dict[str, UnreadableFile | None] = {}
        self._note_known_unreadable()
        self._plan = self._planned()
        self._pictures = {sha256: self._image(of[0]) for sha256, of in self._plan.new.items()}
        for file in self._plan.withheld:
            scan.skipped.add(
                file.name, "removed before", detail="add the file by name to take it back"
            )
        self._counts = Counts(
            moved=self._plan.moved, copies=self._plan.copies, present=self._plan.present
        )
        self.unknown: set[str] = set()  # captions without a word that the model knows

    @property
    def plan(self) -> Plan:
        """What is to be done."""
        return self._plan

    def dry_run(self, encoders: Encoders) -> Counts:
        """Return what `apply` would count, and note what it would; nothing is changed."""
        self._encoders = encoders
        with ThreadPoolExecutor(thread_name_prefix="hasse-decode") as pool:
            errors = list(pool.map(self._error_of, self._pictures))
        for sha256, error in zip(list(self._pictures), errors, strict=True):
            if error is not None:
                self._note_unusable(sha256, error)
        self._plan = self._planned()
        paths = self._changed_paths()
        for at, sha256 in enumerate(self._plan.new):
            self._count_new(sha256)
            id_ = self._plan.replaced.get(sha256, -1 - at)  # a new image has none yet
            paths[id_] = self._path_rows(id_, sha256)
        added, removed = self._caption_changes(paths)
        counts = self._counts
        counts.captions_added, counts.captions_removed = len(added), len(removed)
        counts.removed = len(self._plan.removed)
        return counts

    def apply(
        self, encoders: Encoders, progress: ProgressCallback = lambda done, total: None
    ) -> Counts:
        """Make all changes; others may write meanwhile.

        Raises:
            HasseIndexError: there is no room, or another process is writing.
        """
        self._encoders = encoders
        if self._pictures:
            self._encode(progress)
            self._look_again()
        while True:
            try:
                self._update()
            except Overtaken:
                self._look_again()
            else:
                return self._counts

    def _planned(self) -> Plan:
        return make_plan(
            self._held,
            self.scan,
            self._digests,
            remove=self._remove,
            allow_empty=self._allow_empty,
        )

    def _catalogued(self) -> Catalogued:
        return Catalogued.of(self._index, self.scan.roots.values())

    def _look_again(self) -> None:
        self._held = self._catalogued()
        self._plan = self._planned()

    def _image(self, file: SeenFile) -> Image:
        split = SPLITS.get(file.split.lower())
        if split is None:
            self.scan.skipped.add(file.name, "unknown split", "in no split", file.split)
        return Image(0, file.name, Path(file.path), split or "")

    def _note_known_unreadable(self) -> None:
        """Count files that were named before and have not changed, and forget those that have."""
        for path, known in self._held.unreadable.items():
            file = self.scan.files.get(path)
            if file is not None and self._held.is_unreadable(file):
                self.scan.skipped.passed_over["unreadable file, named before"] += 1
            elif file is not None or any(
                Path(path).is_relative_to(folder) for folder in self.scan.named
            ):
                self._unreadable[known.path] = None

    def _error_of(self, sha256: str) -> PictureError | None:
        limits = self._encoders.source().limits
        try:
            open_picture(self._pictures[sha256].path, limits, at_least=1)
        except PictureError as error:
            return error
        return None

    def _note_unusable(self, sha256: str, error: PictureError) -> None:
        """Name every file of a picture that cannot be used, and remember it.

        What the index has of these files stays, since their bytes count as unknown from now on.
        """
        for file in self._plan.new.get(sha256, ()):
            note_unusable(self.scan.skipped, file.name, Path(file.path), error)
            stamp = file.stamp
            lasting = error.reason in ("damaged", "not_a_picture")
            if stamp is not None and stamp.settled(self.scan.seen_at):
                path = self._held.locations.stored(file.path)
                times = (stamp.size, stamp.modified, stamp.changed)
                version = VERSION if lasting else ANY_VERSION
                self._unreadable[path] = UnreadableFile(path, *times, version)
        self._leave_out(sha256)

    def _leave_out(self, sha256: str) -> None:
        kept = self._digests.items()
        self._digests = {path: digest for path, digest in kept if digest != sha256}

    def _encode(self, progress: ProgressCallback) -> None:
        """Add the new pictures, block by block, each searchable when it is done."""
        every = self._usable_pictures()
        if not every:
            return
        sha256s = {self._pictures[sha256].path: sha256 for sha256 in every}
        source = replace(self._encoders.source(), skipped=lambda line: None)
        images = [self._pictures[sha256] for sha256 in every]
        done = 0
        for block in source.blocks(self._encoders.load().model, images, IMAGES_PER_CHANGE):
            while True:
                try:
                    self._add_block([sha256s[image.path] for image in block.images], block)
                except Overtaken:
                    self._look_again()
                else:
                    break
            for image, error in block.unusable:
                self._note_unusable(sha256s[image.path], error)
            done += len(block.images) + len(block.unusable)
            progress(done, len(every))

    def _usable_pictures(self) -> list[str]:
        """Return the new pictures without those that are known not to be decoded."""
        every = list(self._pictures)
        for sha256 in filter(self._is_contested, list(every)):
            if (error := self._error_of(sha256)) is not None:
                self._note_unusable(sha256, error)
                every.remove(sha256)
        # Where no picture can be used the model need not be loaded, each time that the folder of
        # a damaged one is followed.
        while every and (error := self._error_of(every[0])) is not None:
            self._note_unusable(every.pop(0), error)
        self._plan = self._planned()
        return every

    def _is_contested(self, sha256: str) -> bool:
        """Tell whether a new picture lies in the place of a file of an image with several.

        Which picture the image has from now on depends on whether each of them can be decoded.
        """
        rows = (
            row for file in self._plan.new[sha256] for row in self._held.files.get(file.path, ())
        )
        return any(len(self._held.paths[row.image_id]) > 1 for row in rows)

    def _add_block(self, sha256s: Sequence[str], block: EncodedImages) -> None:
        plan = self._plan
        draft, paths = Draft(self._index.catalog), dict[int, list[PathRow]]()
        replaced = [plan.replaced[sha256] for sha256 in sha256s if sha256 in plan.replaced]
        old = self._index.catalog.images(replaced)
        for sha256, image, facts, point in zip(
            sha256s, block.images, block.facts, block.points, strict=True
        ):
            if facts.sha256 != sha256:  # it was changed meanwhile, and is read again next time
                self._leave_out(sha256)
            elif sha256 in plan.new:  # others may have added it
                id_ = plan.replaced.get(sha256)
                id_ = draft.new_image_id() if id_ is None else id_
                paths[id_] = self._path_rows(id_, sha256)
                file = plan.new[sha256][0]
                stored = self._held.locations.stored(file.path)
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
        self._write(replace(change, replaced=frozenset(old) & draft.images.keys()))
        for row in draft.images.values():
            self._count_new(row.sha256)

    def _count_new(self, sha256: str) -> None:
        counts = self._counts
        counts.copies += len(self._plan.new[sha256]) - 1
        if sha256 in self._plan.replaced:
            counts.changed += 1
        else:
            counts.added += 1

    def _path_rows(self, id_: int, sha256: str) -> list[PathRow]:
        # What tables said of an image that is replaced stays, where they were not read now.
        old = {row.path: row.captions for row in self._held.paths.get(id_, [])}
        stored = self._held.locations.stored
        return [
            path_row(self._held, id_, file, self.scan.seen_at, old.get(stored(file.path), "{}"))
            for file in self._plan.new[sha256]
        ]

    def _update(self) -> None:
        """Change the files and captions of images that are there, and remove images."""
        plan, paths = self._plan, self._changed_paths()
        for part in parts(paths, IMAGES_PER_CHANGE):
            self._change_images({id_: paths[id_] for id_ in part})
        stale = self._stale_metadata()
        for part in parts(stale, IMAGES_PER_CHANGE):
            metadata = {id_: self._read_again(stale[id_]) for id_ in part}
            self._write(Change(metadata=metadata))
        for part in parts(plan.removed, IMAGES_PER_CHANGE):
            self._write(Change(removed_images=part))
            self._counts.removed += len(part)
        before = {file.path: file for file in self._held.unreadable.values()}
        unreadable = {
            path: file for path, file in self._unreadable.items() if file != before.get(path)
        }
        self._unreadable = {}
        if self._held.changed_folders(self.scan, plan.reasons) or unreadable or plan.lapsed:
            self._write(Change(lapsed=plan.lapsed, unreadable=unreadable))

    def _stale_metadata(self) -> dict[int, SeenFile]:
        """Return the images whose sidecars are others than when they were read, or never were."""
        held, files = self._held, self.scan.files
        stale: dict[int, SeenFile] = {}
        for id_, rows in held.paths.items():
            seen = (files.get(held.locations.absolute(row.path)) for row in rows)
            file = next((one for one in seen if one is not None and one.stamp is not None), None)
            if file is not None and file.sidecars not in ("", held.sidecars.get(id_)):
                stale[id_] = file
        return stale

    def _read_again(self, file: SeenFile) -> Metadata:
        path = Path(file.path)
        return self._metadata(file, read_metadata(path, sidecars_of(path)))

    def _metadata(self, file: SeenFile, found: PictureMetadata) -> Metadata:
        for name, reason in found.faults.items():
            self.scan.skipped.add(file.name, f"sidecar {name} that cannot be read", detail=reason)
        return metadata_of(found, file.sidecars)

    def _changed_paths(self) -> dict[int, list[PathRow]]:
        """Return the files of images of the index that have others from now on, or are hashed."""
        plan, held = self._plan, self._held
        return {
            id_: rows
            for id_, rows in plan.paths.items()
            if sorted(rows) != held.paths[id_] or id_ in plan.hashed
        }

    def _change_images(self, paths: Mapping[int, list[PathRow]]) -> None:
        change = self._with_captions(Draft(self._index.catalog), paths)
        known = self._index.catalog.images(list(paths))
        rows = [self._image_now(row, paths[id_]) for id_, row in known.items()]
        self._write(replace(change, rows=[row for row in rows if row != known[row.id]]))

    def _image_now(self, row: ImageRow, paths: Sequence[PathRow]) -> ImageRow:
        """Return the row of an image that has these files from now on."""
        locations, first = self._held.locations, paths[0]
        changed = row._replace(sha256=self._plan.hashed.get(row.id, row.sha256))
        if all(path.path != row.path for path in paths):
            place = locations.absolute(first.path)
            file = self.scan.files.get(place)
            name = Path(place).name if file is None else file.name
            changed = changed._replace(path=first.path, file_name=name)
        if _stamp_of(self._held.paths[row.id], changed.path) != _stamp_of(paths, changed.path):
            changed = changed._replace(taken=taken_at(Path(locations.absolute(changed.path))))
        return changed

    def _caption_changes(
        self, after: Mapping[int, Sequence[PathRow]]
    ) -> tuple[list[tuple[int, str]], list[int]]:
        """Return the captions to add, with their image ids, and the ids of those to remove."""
        differing = {
            id_: (old, new)
            for id_, rows in after.items()
            if (old := texts_of(self._held.paths.get(id_, []))) != (new := texts_of(rows))
        }
        present = self._index.catalog.captions_of(
            [id_ for id_ in differing if id_ in self._held.sha256]
        )
        added: list[tuple[int, str]] = []
        removed: list[int] = []
        for id_, (old, new) in differing.items():
            own = [caption for caption in present.get(id_, []) if caption.written_by is None]
            gone = set(old) - set(new)
            removed += [caption.id for caption in own if caption.text in gone]
            there = {caption.text for caption in own}
            added += [(id_, text) for text in new if text not in there]
        return added, removed

    def _with_captions(self, draft: Draft, paths: Mapping[int, Sequence[PathRow]]) -> Change:
        """Return a change that gives images these files from now on, and their captions."""
        added, removed = self._caption_changes(paths)
        if added:
            loaded = self._encoders.load()
            texts = [text for _, text in added]
            self.unknown.update(text for text in texts if not loaded.vocabulary.knows(text))
            points = loaded.model.encode_captions(texts)
            for (id_, text), point in zip(added, points, strict=True):
                draft.add_caption(id_, text, point)
        return replace(draft.change(), paths=paths, removed_captions=removed)

    def _write(self, change: Change) -> None:
        folders = self._held.changed_folders(self.scan, self._plan.reasons)
        with self._index.writing() as writer:
            if self._index.catalog.generation() != self._held.generation:
                raise Overtaken
            self._held.generation = writer.change(replace(change, folders=folders))
        self._held.folders_before = (*self._held.folders_before, *folders)
        self._index.announce()
        self._counts.captions_added += len(change.captions)
        self._counts.captions_removed += len(change.removed_captions)


def _stamp_of(rows: Sequence[PathRow], path: str) -> tuple[int | None, ...]:
    return next(((row.size, row.modified) for row in rows if row.path == path), ())
