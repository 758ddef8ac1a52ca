"""Compares a scan of folders with an index, and plans the changes of the index.

Files are compared by their bytes, not by their paths. A plan depends only on the catalog and on the
disk. So after a sync that was stopped, the next plan leads to the same state.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from hasse.index.types import PathRow
from hasse.service.writing.folders.catalog_state import CatalogState, row_with_stamp
from hasse.service.writing.folders.file_captions import carry_captions, update_captions
from hasse.service.writing.folders.reach import Reach
from hasse.service.writing.folders.scan import Scan, SeenFile

# The end of the name of a backup copy, after the stem of the original picture.
_BACKUP = re.compile(
    r"[\s._~-]*\(?(orig|original|backup|bak|old|copy|sav|save)\)?[\s._-]*\d*", re.I
)


@dataclass(slots=True)
class Counts:
    """Numbers of files and captions that a sync changes."""

    added: int = 0
    moved: int = 0
    copies: int = 0
    changed: int = 0
    removed: int = 0
    present: int = 0
    captions_added: int = 0
    captions_removed: int = 0


@dataclass(slots=True)
class Plan:
    """The changes that bring an index up to date with a scan, and what they were planned from.

    Attributes:
        state: the images and files of the index.
        scan: the files of the folders.
        digests: the SHA-256 of new and changed files, by path. A file without one, because it
            cannot be read or used as a picture, leaves its image as it is.
        remove: remove images without a file.
        allow_empty: remove them also where a folder is missing, empty or on another device.
        new_files: the files of each new picture, by SHA-256.
        replaced_images: images that get a new picture, by the SHA-256 of that picture.
        paths: the files of each image of the index after the sync.
        removed_images: images without a file.
        missing_files: files that are gone, of images that stay in the index.
        withheld_files: files of images that were removed by name.
        lapsed: paths of removed files that are gone, so that another file there is a new one.
        unreachable: folders whose images are not removed, each with the reason, one sentence.
        new_hashes: the SHA-256 of images that had none.
        moved, copies, present: numbers of files of images of the index.
    """

    state: CatalogState
    scan: Scan
    digests: Mapping[str, str]
    remove: bool
    allow_empty: bool = False
    new_files: dict[str, list[SeenFile]] = field(default_factory=dict)
    replaced_images: dict[str, int] = field(default_factory=dict)
    paths: dict[int, list[PathRow]] = field(default_factory=dict)
    removed_images: list[int] = field(default_factory=list)
    missing_files: list[str] = field(default_factory=list)
    withheld_files: list[SeenFile] = field(default_factory=list)
    lapsed: list[str] = field(default_factory=list)
    unreachable: dict[Path, str] = field(default_factory=dict)
    new_hashes: dict[int, str] = field(default_factory=dict)
    moved: int = 0
    copies: int = 0
    present: int = 0

    @classmethod
    def of(
        cls,
        state: CatalogState,
        scan: Scan,
        digests: Mapping[str, str],
        *,
        remove: bool,
        allow_empty: bool = False,
    ) -> Plan:
        """Plan the changes that bring an index in this state up to date."""
        return _Planner(cls(state, scan, digests, remove, allow_empty)).plan()

    def again(self, state: CatalogState, unusable: Collection[str]) -> Plan:
        """Plan anew for a state of the index, without pictures that cannot be used, by SHA-256."""
        digests = {path: sha256 for path, sha256 in self.digests.items() if sha256 not in unusable}
        return Plan.of(state, self.scan, digests, remove=self.remove, allow_empty=self.allow_empty)

    def path_row(self, image_id: int, file: SeenFile, captions_before: str) -> PathRow:
        """Return the row of a file that has the bytes of an image.

        `captions_before`, as in `PathRow`, stay where the scan did not read their source.
        """
        stored, stamp = self.state.locations.catalog_path, file.stamp
        folder = "" if file.folder is None else stored(str(file.folder))
        captions = update_captions(captions_before, file.captions)
        row = PathRow(image_id, stored(file.path), folder, captions=captions)
        if stamp is None or not stamp.settled(self.scan.seen_at):
            return row
        return row._replace(size=stamp.size, modified=stamp.modified, changed=stamp.changed)

    def changed_paths(self) -> dict[int, list[PathRow]]:
        """Return the files of images whose files change, or whose SHA-256 was unknown."""
        return {
            id_: rows
            for id_, rows in self.paths.items()
            if sorted(rows) != self.state.paths[id_] or id_ in self.new_hashes
        }

    def new_paths(self, id_: int, sha256: str) -> list[PathRow]:
        """Return the files of an image that is new, or gets a new picture."""
        # Captions of a replaced image stay if they are from a table that was not scanned now.
        old = {row.path: row.captions for row in self.state.paths.get(id_, [])}
        stored = self.state.locations.catalog_path
        return [
            self.path_row(id_, file, old.get(stored(file.path), "{}"))
            for file in self.new_files[sha256]
        ]


class _Planner:
    def __init__(self, plan: Plan) -> None:
        self._plan, self._state, self._scan = plan, plan.state, plan.scan
        self._digests = plan.digests
        self._reach = Reach(plan.state, plan.scan, allow_empty=plan.allow_empty)
        self._stored_folders: dict[Path, str] = {}

    def plan(self) -> Plan:
        plan, state = self._plan, self._state
        plan.unreachable = self._reach.unreachable
        self._adopt_digests()
        owners: dict[str, int] = {}
        for id_ in sorted(state.sha256):
            owners.setdefault(state.sha256[id_] or f"unknown {id_}", id_)
        seen_rows: dict[int, list[PathRow]] = {}
        for path, file in self._scan.files.items():
            sha256 = self._sha256(file)
            if sha256 is None:
                continue
            rows = state.files.get(path, [])
            matching = [row for row in rows if state.sha256[row.image_id] == sha256]
            ids = [row.image_id for row in matching]
            if not ids and sha256 in owners:
                ids = [owners[sha256]]
            for id_ in ids:
                seen_rows.setdefault(id_, []).append(self._row(id_, file, matching))
            if not ids:
                self._note_new(file, sha256)
        for id_, rows in state.paths.items():
            self._plan_image(id_, rows, seen_rows.get(id_, []))
        plan.lapsed = [path for path in state.removed_paths if self._has_lapsed(path)]
        return plan

    def _has_lapsed(self, path: str) -> bool:
        is_seen = self._state.locations.absolute(path) in self._scan.files
        return not is_seen and self._reach.is_gone(path)

    def _note_new(self, file: SeenFile, sha256: str) -> None:
        """Add a file to the new pictures, unless its image was removed by name."""
        state, stored = self._state, self._state.locations.catalog_path
        removed = sha256 in state.removed_sha256 or stored(file.path) in state.removed_paths
        if removed and file.folder is not None:
            self._plan.withheld_files.append(file)
        else:
            self._plan.new_files.setdefault(sha256, []).append(file)

    def _plan_image(self, id_: int, rows: list[PathRow], seen_rows: list[PathRow]) -> None:
        """Plan the files of an image of the index, or its removal."""
        plan, seen_paths = self._plan, {row.path for row in seen_rows}
        paths_before = {row.path for row in rows}
        new_rows = [row for row in seen_rows if row.path not in paths_before]
        rows_after, gone, overwritten = list(seen_rows), [], []
        for row in rows:
            if row.path in seen_paths:
                continue
            file = self._scan.files.get(self._state.locations.absolute(row.path))
            if file is not None and self._sha256(file) is not None:
                overwritten.append((row, file))
            elif file is not None or not self._reach.is_gone(row.path, moved=bool(new_rows)):
                rows_after.append(row)
            else:
                gone.append(row)
        if self._replace_backed_up(id_, rows_after, new_rows, overwritten):
            return
        plan.present += len(seen_rows) - len(new_rows)
        if rows_after:
            moved = min(len(new_rows), len(gone) + len(overwritten))
            plan.moved += moved
            plan.copies += len(new_rows) - moved
            old_rows = [*gone, *(row for row, _ in overwritten)]
            plan.paths[id_] = carry_captions(rows_after, old_rows, new_rows)
            return
        if self._replace_image(id_, rows, overwritten):
            return
        if gone and not plan.remove:
            plan.paths[id_] = rows
            plan.missing_files += [self._state.locations.absolute(row.path) for row in gone]
        elif rows:
            plan.removed_images.append(id_)

    def _replace_image(
        self, id_: int, rows: list[PathRow], overwritten: Sequence[tuple[PathRow, SeenFile]]
    ) -> bool:
        """Give an image the new picture of one of its files; return False if there is none."""
        plan = self._plan
        for _, file in overwritten:
            sha256 = self._sha256(file)
            if sha256 in plan.new_files and sha256 not in plan.replaced_images:
                plan.replaced_images[sha256] = id_
                plan.paths[id_] = rows  # until its new picture is encoded
                return True
        return False

    def _replace_backed_up(
        self,
        id_: int,
        rows_after: Sequence[PathRow],
        new_rows: Sequence[PathRow],
        overwritten: Sequence[tuple[PathRow, SeenFile]],
    ) -> bool:
        """Replace an image whose file was edited, and whose former bytes lie in a backup copy.

        The image stays with the edited file, and the copy becomes a new image. Returns False if
        there is no such copy.
        """
        copies = {row.path for row in new_rows}
        if not overwritten or not copies or len(rows_after) != len(copies):
            return False
        if not all(any(_is_backup(path, row.path) for row, _ in overwritten) for path in copies):
            return False
        if not self._replace_image(id_, self._state.paths[id_], overwritten):
            return False
        absolute = self._state.locations.absolute
        files = [self._scan.files[absolute(path)] for path in sorted(copies)]
        self._plan.new_files[self._state.sha256[id_]] = files
        return True

    def _adopt_digests(self) -> None:
        """Give images without SHA-256 that of their file."""
        for path, rows in self._state.files.items():
            for row in rows:
                if not self._state.sha256.get(row.image_id) and path in self._digests:
                    self._state.sha256[row.image_id] = self._digests[path]
                    self._plan.new_hashes[row.image_id] = self._digests[path]

    def _sha256(self, file: SeenFile) -> str | None:
        """Return the SHA-256 of a file, or None if it is unknown."""
        if file.stamp is None:
            return None
        row = self._state.unchanged_row(file)
        if row is not None:
            return self._state.sha256[row.image_id]
        return self._digests.get(file.path)

    def _row(self, id_: int, file: SeenFile, matching: Sequence[PathRow]) -> PathRow:
        row_before = next((row for row in matching if row.image_id == id_), None)
        if row_before is None:
            return self._plan.path_row(id_, file, "{}")
        folder = row_before.folder if file.folder is None else self._stored_folder(file.folder)
        if row_with_stamp(file, [row_before]) is not None:
            captions = update_captions(row_before.captions, file.captions)
            return row_before._replace(folder=folder, captions=captions)
        row = self._plan.path_row(id_, file, row_before.captions)
        return row._replace(folder=folder)

    def _stored_folder(self, folder: Path) -> str:
        if folder not in self._stored_folders:
            self._stored_folders[folder] = self._state.locations.catalog_path(str(folder))
        return self._stored_folders[folder]


def _is_backup(path: str, original: str) -> bool:
    """Return whether a file has the name of a backup copy of a picture beside it."""
    copy, picture = PurePath(path), PurePath(original)
    if copy.parent != picture.parent:
        return False
    ending = copy.stem.removeprefix(picture.stem)
    return copy.name.startswith(picture.name) or (
        copy.stem.startswith(picture.stem) and _BACKUP.fullmatch(ending) is not None
    )
