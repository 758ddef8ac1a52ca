"""Bring an index up to date with folders of pictures: carry out what `plan` decides.

Every step is one generation. A call that is stopped or killed leaves what it has done, and the
next one goes on from there.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hasse.index.catalog.free_ids import free_ids
from hasse.index.segments.writer import Addition, Change
from hasse.index.store import Index
from hasse.index.types import CaptionRow, FolderRow, ImageRow, PathRow, Points, UnreadableFile
from hasse.models.datasets import Image
from hasse.models.datasets.builder import SPLITS, note_unusable, sizes_of
from hasse.models.images.decoding import open_picture
from hasse.models.images.limits import DEFAULT_LIMITS, PictureError, PictureLimits
from hasse.models.images.taken import taken_at
from hasse.service.pipelines.folders.plan import (
    VERSION,
    Catalogued,
    Counts,
    Plan,
    is_known_unreadable,
    make_plan,
    needed_digests,
    path_row,
    texts_of,
)
from hasse.service.pipelines.folders.scan import FileStamp, Scan, SeenFile, read_digests

if TYPE_CHECKING:
    from hasse.models.checkpoints.checkpoint import Checkpoint
    from hasse.service.pipelines.dataset_encoding import ImageSource

IMAGES_PER_CHANGE = 1024

ProgressCallback = Callable[[int, int], None]  # told how many are done, of how many


@dataclass(frozen=True, slots=True)
class Encoders:
    """What encodes pictures and captions. The model is loaded when it is first needed."""

    load: Callable[[], Checkpoint]
    source: Callable[[], ImageSource]


def encoders_of(
    index: Index, model: Path | None, device: str, source: Callable[[], ImageSource]
) -> Encoders:
    """Return what encodes for an index: `model`, or by default the model that it remembers."""

    @functools.cache
    def load() -> Checkpoint:
        from hasse.models.checkpoints import checkpoint, named_models
        from hasse.service.runtime.device import pick_device

        own = index.model
        found = (
            named_models.remembered(own.name, own.fingerprint, own.checkpoint)
            if model is None
            else named_models.find(model)
        )
        loaded = checkpoint.load(found, pick_device(device))
        index.require_model(loaded.fingerprint)
        return loaded

    return Encoders(load, source)


class Overtaken(Exception):
    """Another writer has changed the index since the plan was made."""


class FolderSync:
    """Brings one index in step with what a scan has found.

    Args:
        index: what is changed.
        scan: what the folders hold.
        remove: whether images go with the last of their files.
        allow_empty: whether they go too where a folder is missing or empty, or on another device.
        limits: how large a picture may be.
    """

    def __init__(
        self,
        index: Index,
        scan: Scan,
        *,
        remove: bool,
        allow_empty: bool = False,
        limits: PictureLimits = DEFAULT_LIMITS,
    ) -> None:
        self._index = index
        self._limits = limits
        self.scan = scan
        self._remove = remove
        self._allow_empty = allow_empty
        self._held = self._catalogued()
        self._digests = read_digests(needed_digests(self._held, scan), scan.skipped)
        self._unreadable: dict[str, UnreadableFile | None] = {}
        self._note_known_unreadable()
        self._plan = self._planned()
        self.pictures = self._usable_pictures()
        self._note_withheld()
        self._count_captions()
        self.counts = replace(self._plan.counts)
        self.unknown: set[str] = set()  # captions without a word that the model knows

    def dry_run(self, encoders: Encoders) -> Counts:
        """Return what `apply` would count, and note what it would; nothing is changed."""
        self._encoders = encoders
        with ThreadPoolExecutor(thread_name_prefix="hasse-decode") as pool:
            decoded = list(pool.map(self._try_to_decode, self.pictures))
        pictures = zip(list(self.pictures), decoded, strict=True)
        self._discount({sha256 for sha256, good in pictures if not good})
        self.counts.added, self.counts.changed = self._plan.counts.added, self._plan.counts.changed
        return self.counts

    @property
    def plan(self) -> Plan:
        """What is to be done."""
        return self._plan

    def apply(
        self, encoders: Encoders, progress: ProgressCallback = lambda done, total: None
    ) -> Counts:
        """Make all changes; others may write meanwhile.

        Raises:
            HasseIndexError: there is no room, or another process is writing.
        """
        self.counts.added = self.counts.changed = 0
        self._encoders = encoders
        if self.pictures:
            self._encode(progress)
            self._look_again()
        while True:
            try:
                self._update()
            except Overtaken:
                self._look_again()
            else:
                return self.counts

    def _planned(self) -> Plan:
        return make_plan(
            self._index.folder,
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

    def _usable_pictures(self) -> dict[str, Image]:
        """Return the new pictures by SHA-256, without those that cannot be used."""
        skipped = self.scan.skipped
        usable: dict[str, Image] = {}
        files = [files[0] for files in self._plan.new.values()]
        sizes = sizes_of([Path(file.path) for file in files], self._limits)
        for sha256, file, size in zip(list(self._plan.new), files, sizes, strict=True):
            if isinstance(size, PictureError):
                self._note_unusable(
                    sha256,
                    size,
                    lambda one, found: note_unusable(skipped, one.name, Path(one.path), found),
                )
                continue
            split = SPLITS.get(file.split.lower())
            if split is None:
                skipped.add(file.name, "unknown split", "in no split", file.split)
            usable[sha256] = Image(0, file.name, Path(file.path), split or "", *size)
        self._leave_out(set(self._plan.new) - set(usable))
        return usable

    def _note_unusable(
        self, sha256: str, error: PictureError, note: Callable[[SeenFile, PictureError], None]
    ) -> None:
        """Name every file of a picture that cannot be used, and remember those that never can."""
        for file in self._plan.new[sha256]:
            note(file, error)
            if error.reason in ("damaged", "not_a_picture") and file.stamp is not None:
                self._remember_unreadable(file, file.stamp)

    def _remember_unreadable(self, file: SeenFile, stamp: FileStamp) -> None:
        if stamp.settled(self.scan.seen_at):
            path = self._held.locations.stored(file.path)
            times = (stamp.size, stamp.modified, stamp.changed)
            self._unreadable[path] = UnreadableFile(path, *times, VERSION)

    def _note_known_unreadable(self) -> None:
        """Count files that were named before and have not changed, and forget those that have."""
        for path, known in self._held.unreadable.items():
            file = self.scan.files.get(path)
            if file is None:
                if any(Path(path).is_relative_to(folder) for folder in self.scan.named):
                    self._unreadable[known.path] = None
            elif is_known_unreadable(file, self._held):
                self.scan.skipped.passed_over["unreadable file, named before"] += 1
            else:
                self._unreadable[known.path] = None

    def _note_withheld(self) -> None:
        remedy = "add the file by name to take it back"
        for file in self._plan.withheld:
            self.scan.skipped.add(file.name, "removed before", detail=remedy)

    def _discount(self, undecoded: set[str]) -> None:
        """Take pictures that cannot be decoded out of the counts, and leave them out."""
        for sha256 in undecoded & set(self._plan.new):
            more, fewer = self._caption_counts(sha256)
            self.counts.copies -= len(self._plan.new[sha256]) - 1
            self.counts.captions_added -= more
            self.counts.captions_removed -= fewer
        self._leave_out(undecoded)

    def _leave_out(self, unusable: set[str]) -> None:
        """Take files whose bytes make no picture for unknown: what the index has of them stays."""
        if unusable:
            kept = self._digests.items()
            self._digests = {path: digest for path, digest in kept if digest not in unusable}
            self._plan = self._planned()

    def _encode(self, progress: ProgressCallback) -> None:
        """Add the new pictures, block by block, each searchable when it is done."""
        given = self._encoders.source()
        self._discount(self._damaged())
        if not self.pictures:
            return
        model = self._loaded().model
        shas = {image.path: sha256 for sha256, image in self.pictures.items()}
        source = replace(given, skipped=lambda line: None)  # named below, with their copies
        done: set[str] = set()
        self._number()
        for part, points in source.blocks(model, list(self.pictures.values()), IMAGES_PER_CHANGE):
            while True:
                try:
                    self._add_block([shas[image.path] for image in part], part, points)
                except Overtaken:
                    self._look_again()
                    self._number()
                else:
                    break
            done.update(shas[image.path] for image in part)
            progress(len(done), len(self.pictures))
        undecoded = set(self.pictures) - done
        for sha256 in undecoded & set(self._plan.new):
            self._try_to_decode(sha256)
        self._discount(undecoded)

    def _damaged(self) -> set[str]:
        """Take out pictures that cannot be decoded, up to the first that can; return them.

        Where none can, the model need not be loaded, each time that a folder with them is followed.
        """
        damaged: set[str] = set()
        for sha256 in self.pictures:
            if self._try_to_decode(sha256):
                break
            damaged.add(sha256)
        for sha256 in damaged:
            del self.pictures[sha256]
        return damaged

    def _try_to_decode(self, sha256: str) -> bool:
        """Tell whether a picture can be decoded, or name all files that hold it."""
        try:
            open_picture(self.pictures[sha256].path, self._limits, at_least=1)
        except PictureError as error:
            tell = self._encoders.source().skipped

            def note(file: SeenFile, found: PictureError) -> None:
                line = f"{file.name}: {found}: skipped"
                self.scan.skipped.note("cannot be decoded", line)
                tell(line)

            self._note_unusable(sha256, error, note)
            return False
        return True

    def _number(self) -> None:
        catalog, largest = self._index.catalog, self._held.largest
        self._image_ids = free_ids(catalog, "image", largest["image"])
        self._caption_ids = free_ids(catalog, "caption", largest["caption"])

    def _add_block(self, shas: Sequence[str], images: Sequence[Image], points: Points) -> None:
        plan, held = self._plan, self._held
        # Others may have added some of them.
        wanted = [at for at, sha256 in enumerate(shas) if sha256 in plan.new]
        if not wanted:
            return
        replaced = {plan.replaced[shas[at]] for at in wanted if shas[at] in plan.replaced}
        old = self._index.catalog.images(sorted(replaced))
        rows: list[ImageRow] = []
        paths: dict[int, list[PathRow]] = {}
        for at in wanted:
            sha256, image = shas[at], images[at]
            id_ = plan.replaced.get(sha256)
            id_ = next(self._image_ids) if id_ is None else id_
            paths[id_] = self._path_rows(id_, plan.new[sha256])
            row = self._image_row(id_, plan.new[sha256][0], image, sha256)
            rows.append(row._replace(added=old[id_].added) if id_ in old else row)
        before = {id_: held.paths.get(id_, []) for id_ in paths}
        captions, removed = self._caption_changes(before, paths)
        change = Change(
            self._addition(rows, points[wanted], captions),
            replaced=frozenset(replaced),
            paths=paths,
            removed_captions=removed,
        )
        self._write(change)
        self.counts.changed += len(replaced)
        self.counts.added += len(rows) - len(replaced)

    def _path_rows(self, id_: int, files: Sequence[SeenFile]) -> list[PathRow]:
        # What tables said of an image that is replaced stays, where they were not read now.
        old = {row.path: row.captions for row in self._held.paths.get(id_, [])}
        rows = []
        for file in files:
            before = old.get(self._held.locations.stored(file.path), "{}")
            rows.append(path_row(self._held.locations, id_, file, self.scan.seen_at, before))
        return rows

    def _image_row(self, id_: int, file: SeenFile, image: Image, sha256: str) -> ImageRow:
        return ImageRow(
            id_,
            file.name,
            self._held.locations.stored(file.path),
            image.width,
            image.height,
            image.split,
            sha256,
            None,
            taken_at(Path(file.path)),
        )

    def _update(self) -> None:
        """Change the files and captions of images that are there, and remove images."""
        plan, held = self._plan, self._held
        self._number()
        paths = {
            id_: rows
            for id_, rows in plan.paths.items()
            if sorted(rows) != held.paths[id_] or id_ in plan.hashed
        }
        for part in _parts(list(paths)):
            self._change_images({id_: paths[id_] for id_ in part})
        for part in _parts(plan.removed):
            self._write(Change(self._addition([]), removed_images=part))
        if self._changed_folders() or self._unreadable or plan.lapsed:
            unreadable, self._unreadable = self._unreadable, {}
            self._write(Change(self._addition([]), lapsed=plan.lapsed, unreadable=unreadable))

    def _change_images(self, paths: Mapping[int, list[PathRow]]) -> None:
        before = {id_: self._held.paths[id_] for id_ in paths}
        captions, removed = self._caption_changes(before, paths)
        rows = []
        for id_, row in self._index.catalog.images(list(paths)).items():
            changed = row._replace(sha256=self._plan.hashed.get(id_, row.sha256))
            if all(path.path != row.path for path in paths[id_]):
                first = paths[id_][0]
                changed = changed._replace(path=first.path, file_name=self._name_of(first))
            if _stamp_of(before[id_], changed.path) != _stamp_of(paths[id_], changed.path):
                place = Path(self._held.locations.absolute(changed.path))
                changed = changed._replace(taken=taken_at(place))
            if changed != row:
                rows.append(changed)
        addition = self._addition([], captions=captions)
        self._write(Change(addition, rows=rows, paths=paths, removed_captions=removed))

    def _name_of(self, path: PathRow) -> str:
        place = self._held.locations.absolute(path.path)
        file = self.scan.files.get(place)
        return Path(place).name if file is None else file.name

    def _caption_changes(
        self, before: Mapping[int, Sequence[PathRow]], after: Mapping[int, Sequence[PathRow]]
    ) -> tuple[list[tuple[int, str]], list[int]]:
        """Return the captions to add, with their image ids, and the ids of those to remove."""
        differing = {
            id_: (old, new)
            for id_, rows in after.items()
            if (old := texts_of(before[id_])) != (new := texts_of(rows))
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

    def _count_captions(self) -> None:
        plan, counts = self._plan, self._plan.counts
        after = {id_: rows for id_, rows in plan.paths.items() if rows is not self._held.paths[id_]}
        added, removed = self._caption_changes(self._held.paths, after)
        counts.captions_added, counts.captions_removed = len(added), len(removed)
        for sha256 in plan.new:
            more, fewer = self._caption_counts(sha256)
            counts.captions_added += more
            counts.captions_removed += fewer

    def _caption_counts(self, sha256: str) -> tuple[int, int]:
        """Return how many captions a new picture adds, and removes from the image it replaces."""
        replaced = self._plan.replaced.get(sha256, 0)
        new = set(texts_of(self._path_rows(replaced, self._plan.new[sha256])))
        old = set(texts_of(self._held.paths.get(replaced, [])))
        return len(new - old), len(old - new)

    def _addition(
        self,
        rows: Sequence[ImageRow],
        points: Points | None = None,
        captions: Sequence[tuple[int, str]] = (),
    ) -> Addition:
        model = self._index.model
        nothing = np.empty((0, model.dimension), np.float32)
        texts = [text for _, text in captions]
        if texts:
            knows = self._loaded().vocabulary.knows
            self.unknown.update(text for text in texts if not knows(text))
        return Addition.checked(
            model,
            rows,
            nothing if points is None else points,
            [CaptionRow(next(self._caption_ids), id_, text) for id_, text in captions],
            self._loaded().model.encode_captions(texts) if texts else nothing,
        )

    def _loaded(self) -> Checkpoint:
        return self._encoders.load()

    def _changed_folders(self) -> list[FolderRow]:
        """Return the folders that the catalog does not have as they are now."""
        locations, scan = self._held.locations, self.scan
        rows = [
            row._replace(beside=os.path.relpath(path, self._index.folder))
            for path, row in scan.roots.items()
            if path not in self._plan.reasons and row.device is not None
        ]
        rows += [
            locations.folder(path, device)
            for path, device in scan.mounts.items()
            if path not in self._plan.reasons
        ]
        singly = {Path(file.path).parent for file in scan.files.values() if file.folder is None}
        rows += [
            locations.folder(path, None) for path in singly if locations.root_of(str(path)) is None
        ]
        known = set(self._held.folders_before)
        return [row for row in dict.fromkeys(rows) if row not in known]

    def _write(self, change: Change) -> None:
        folders = self._changed_folders()
        with self._index.writing() as writer:
            if self._index.catalog.generation() != self._held.generation:
                raise Overtaken
            self._held.generation = writer.change(replace(change, folders=folders))
        self._held.folders_before = (*self._held.folders_before, *folders)
        self._index.announce()


def _stamp_of(rows: Sequence[PathRow], path: str) -> tuple[int | None, ...]:
    return next(((row.size, row.modified) for row in rows if row.path == path), ())


def _parts(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    for at in range(0, len(ids), IMAGES_PER_CHANGE):
        yield ids[at : at + IMAGES_PER_CHANGE]
