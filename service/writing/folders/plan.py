"""Decide how an index follows what a scan has found: by the bytes of files, not by their paths.

A plan depends only on the catalog and on the disk. So a plan that was carried out in part leads,
made again, to the same end.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from hasse.index.types import PathRow
from hasse.service.writing.folders.catalogued import Catalogued, unchanged
from hasse.service.writing.folders.file_captions import carried, updated
from hasse.service.writing.folders.reach import Reach
from hasse.service.writing.folders.scan import Scan, SeenFile

# What programs put behind the stem of a picture to name the copy that they keep.
_BACKUP = re.compile(
    r"[\s._~-]*\(?(orig|original|backup|bak|old|copy|sav|save)\)?[\s._-]*\d*", re.I
)


@dataclass(slots=True)
class Counts:
    """What a sync does, in numbers of files and of captions."""

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
    """How the index follows a scan.

    Attributes:
        new: pictures that no image has, by SHA-256: the files of each.
        replaced: the images whose picture has become one of those, by SHA-256.
        paths: the files that every image of the index has from now on.
        removed: images that have no file any more.
        vanished: files that are gone, of images that stay in the index.
        withheld: files of images that were removed by name.
        lapsed: paths of removed files that are gone, so that another file there is a new one.
        reasons: why nothing of a folder is removed, one sentence each, by folder.
        hashed: the SHA-256 of images that had none.
        moved, copies, present: numbers of files of images of the index.
    """

    new: dict[str, list[SeenFile]] = field(default_factory=dict)
    replaced: dict[str, int] = field(default_factory=dict)
    paths: dict[int, list[PathRow]] = field(default_factory=dict)
    removed: list[int] = field(default_factory=list)
    vanished: list[str] = field(default_factory=list)
    withheld: list[SeenFile] = field(default_factory=list)
    lapsed: list[str] = field(default_factory=list)
    reasons: dict[Path, str] = field(default_factory=dict)
    hashed: dict[int, str] = field(default_factory=dict)
    moved: int = 0
    copies: int = 0
    present: int = 0


def make_plan(
    held: Catalogued,
    scan: Scan,
    digests: Mapping[str, str],
    *,
    remove: bool,
    allow_empty: bool = False,
) -> Plan:
    """Plan the changes; `digests` are the SHA-256 of those files whose bytes are known.

    Files that cannot be read or cannot be used as pictures have none there: what the index holds of
    them stays. With `remove`, images go with the last of their files.
    """
    reach = Reach(held, scan, allow_empty=allow_empty)
    return _Planner(held, scan, digests, reach, remove=remove).plan()


def path_row(
    held: Catalogued, image_id: int, file: SeenFile, seen_at: float, captions_before: str
) -> PathRow:
    """Return the row of a file whose bytes are those of an image.

    Of `captions_before`, as in `PathRow`, those stay whose source was not read.
    """
    stored = held.locations.stored
    folder = "" if file.folder is None else stored(str(file.folder))
    captions = updated(captions_before, file.captions)
    row = PathRow(image_id, stored(file.path), folder, captions=captions)
    stamp = file.stamp
    if stamp is None or not stamp.settled(seen_at):
        return row
    return row._replace(size=stamp.size, modified=stamp.modified, changed=stamp.changed)


class _Planner:
    def __init__(
        self,
        held: Catalogued,
        scan: Scan,
        digests: Mapping[str, str],
        reach: Reach,
        *,
        remove: bool,
    ) -> None:
        self._held, self._scan, self._digests = held, scan, digests
        self._reach, self._remove = reach, remove
        self._plan = Plan(reasons=reach.reasons)
        self._stored_folders: dict[Path, str] = {}

    def plan(self) -> Plan:
        plan, held = self._plan, self._held
        self._adopt_digests()
        owners: dict[str, int] = {}
        for id_ in sorted(held.sha256):
            owners.setdefault(held.sha256[id_] or f"unknown {id_}", id_)
        seen: dict[int, list[PathRow]] = {}
        for path, file in self._scan.files.items():
            sha256 = self._sha256(file)
            if sha256 is None:
                continue
            rows = held.files.get(path, [])
            mine = [row for row in rows if held.sha256[row.image_id] == sha256]
            ids = [row.image_id for row in mine]
            if not ids and sha256 in owners:
                ids = [owners[sha256]]
            for id_ in ids:
                seen.setdefault(id_, []).append(self._row(id_, file, mine))
            if not ids:
                self._note_new(file, sha256)
        for id_, rows in held.paths.items():
            self._settle(id_, rows, seen.get(id_, []))
        plan.lapsed = [path for path in held.removed[1] if self._has_lapsed(path)]
        return plan

    def _has_lapsed(self, path: str) -> bool:
        seen = self._held.locations.absolute(path) in self._scan.files
        return not seen and self._reach.is_gone(path)

    def _note_new(self, file: SeenFile, sha256: str) -> None:
        """Take a file for a new picture, unless its image was removed by name."""
        shas, paths = self._held.removed
        removed = sha256 in shas or self._held.locations.stored(file.path) in paths
        if removed and file.folder is not None:
            self._plan.withheld.append(file)
        else:
            self._plan.new.setdefault(sha256, []).append(file)

    def _settle(self, id_: int, rows: list[PathRow], seen: list[PathRow]) -> None:
        """Decide which files an image has from now on, and whether it stays."""
        plan, names = self._plan, {row.path for row in seen}
        before = {row.path for row in rows}
        fresh = [row for row in seen if row.path not in before]
        kept, vanished, lost = list(seen), [], []
        for row in rows:
            if row.path in names:
                continue
            file = self._scan.files.get(self._held.locations.absolute(row.path))
            if file is not None and self._sha256(file) is not None:
                lost.append((row, file))
            elif file is not None or not self._reach.is_gone(row.path, moved=bool(fresh)):
                kept.append(row)
            else:
                vanished.append(row)
        if self._is_backed_up(id_, kept, fresh, lost):
            return
        plan.present += len(seen) - len(fresh)
        if kept:
            moved = min(len(fresh), len(vanished) + len(lost))
            plan.moved += moved
            plan.copies += len(fresh) - moved
            plan.paths[id_] = carried(kept, [*vanished, *(row for row, _ in lost)], fresh)
            return
        if self._replace(id_, rows, lost):
            return
        if vanished and not self._remove:
            plan.paths[id_] = rows
            plan.vanished += [self._held.locations.absolute(row.path) for row in vanished]
        elif rows:
            plan.removed.append(id_)

    def _replace(
        self, id_: int, rows: list[PathRow], lost: Sequence[tuple[PathRow, SeenFile]]
    ) -> bool:
        """Let an image follow a file of its own that is another picture now, if there is one."""
        plan = self._plan
        for _, file in lost:
            sha256 = self._sha256(file)
            if sha256 in plan.new and sha256 not in plan.replaced:
                plan.replaced[sha256] = id_
                plan.paths[id_] = rows  # until its new picture is encoded
                return True
        return False

    def _is_backed_up(
        self,
        id_: int,
        kept: Sequence[PathRow],
        fresh: Sequence[PathRow],
        lost: Sequence[tuple[PathRow, SeenFile]],
    ) -> bool:
        """Let an image stay with a file that was edited, where a program kept a copy beside it.

        The copy has the former bytes, and is a new image.
        """
        copies = {row.path for row in fresh}
        if not lost or not copies or len(kept) != len(copies):
            return False
        if not all(any(_is_backup(path, row.path) for row, _ in lost) for path in copies):
            return False
        if not self._replace(id_, self._held.paths[id_], lost):
            return False
        absolute = self._held.locations.absolute
        files = [self._scan.files[absolute(path)] for path in sorted(copies)]
        self._plan.new[self._held.sha256[id_]] = files
        return True

    def _adopt_digests(self) -> None:
        """Take files whose images were never hashed for what was encoded."""
        for path, rows in self._held.files.items():
            for row in rows:
                if not self._held.sha256.get(row.image_id) and path in self._digests:
                    self._held.sha256[row.image_id] = self._digests[path]
                    self._plan.hashed[row.image_id] = self._digests[path]

    def _sha256(self, file: SeenFile) -> str | None:
        """Return the SHA-256 of a file; None where it is not known."""
        if file.stamp is None:
            return None
        same = self._held.unchanged(file)
        if same is not None:
            return self._held.sha256[same.image_id]
        return self._digests.get(file.path)

    def _row(self, id_: int, file: SeenFile, mine: Sequence[PathRow]) -> PathRow:
        before = next((row for row in mine if row.image_id == id_), None)
        if before is None:
            return path_row(self._held, id_, file, self._scan.seen_at, "{}")
        folder = before.folder if file.folder is None else self._stored_folder(file.folder)
        if unchanged(file, [before]) is not None:
            captions = updated(before.captions, file.captions)
            return before._replace(folder=folder, captions=captions)
        row = path_row(self._held, id_, file, self._scan.seen_at, before.captions)
        return row._replace(folder=folder)

    def _stored_folder(self, folder: Path) -> str:
        if folder not in self._stored_folders:
            self._stored_folders[folder] = self._held.locations.stored(str(folder))
        return self._stored_folders[folder]


def _is_backup(path: str, original: str) -> bool:
    """Tell whether a file is named like the copy that a program keeps beside a picture."""
    copy, picture = PurePath(path), PurePath(original)
    if copy.parent != picture.parent:
        return False
    rest = copy.stem.removeprefix(picture.stem)
    return copy.name.startswith(picture.name) or (
        copy.stem.startswith(picture.stem) and _BACKUP.fullmatch(rest) is not None
    )
