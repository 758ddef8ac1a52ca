"""Decide how an index follows what a scan has found: by the bytes of files, not by their paths.

A plan depends only on the catalog and on the disk. So a plan that was carried out in part leads,
made again, to the same end.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version as installed_version
from pathlib import Path, PurePath

from hasse.index.catalog.locations import Locations
from hasse.index.store import Index
from hasse.index.types import FolderRow, Kind, PathRow, UnreadableFile
from hasse.service.pipelines.folders.scan import Scan, SeenFile

VERSION = installed_version("hasse-search")
# What programs put behind the stem of a picture to name the copy that they keep.
_BACKUP = re.compile(
    r"[\s._~-]*\(?(orig|original|backup|bak|old|copy|sav|save)\)?[\s._-]*\d*", re.I
)


@dataclass(slots=True)
class Catalogued:
    """What a generation of an index holds.

    Attributes:
        locations: with the folders that were scanned, as they are now.
        folders_before: the folders as the catalog has them.
        removed: SHA-256 and paths of files whose images were removed by name.
        unreadable: files that could not be decoded, by absolute path.
    """

    generation: int
    largest: dict[Kind, int]
    sha256: dict[int, str]
    paths: dict[int, list[PathRow]]
    locations: Locations
    folders_before: Sequence[FolderRow]
    removed: tuple[set[str], set[str]]
    unreadable: dict[str, UnreadableFile]

    @classmethod
    def of(cls, index: Index, folders: Iterable[FolderRow]) -> Catalogued:
        """Read the visible generation; `folders` are those that were scanned, as they are now."""
        catalog = index.catalog
        while True:
            generation = catalog.generation()
            sha256 = catalog.sha256s()
            before = catalog.locations(index.folder)
            locations = before.updated(folders)
            paths: dict[int, list[PathRow]] = {id_: [] for id_ in sha256}
            for row in sorted(catalog.all_paths(), key=lambda row: row.path):
                paths.setdefault(row.image_id, []).append(row)
            found = cls(
                generation,
                catalog.largest_ids(),
                sha256,
                paths,
                locations,
                tuple(before.folders.values()),
                catalog.removed(),
                {
                    locations.absolute(file.path): file
                    for file in catalog.unreadable()
                    if file.version == VERSION
                },
            )
            if catalog.generation() == generation:
                return found

    def rows_by_path(self) -> dict[str, list[PathRow]]:
        """Return the files of all images, by absolute path."""
        found: dict[str, list[PathRow]] = {}
        for rows in self.paths.values():
            for row in rows:
                found.setdefault(self.locations.absolute(row.path), []).append(row)
        return found


@dataclass(slots=True)
class Counts:
    """What a plan does, in numbers of files and of captions."""

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
    counts: Counts = field(default_factory=Counts)


def needed_digests(held: Catalogued, scan: Scan) -> list[SeenFile]:
    """Return the files whose bytes must be read: new ones, and those that may have changed."""
    known = held.rows_by_path()
    return [
        file
        for path, file in scan.files.items()
        if file.stamp is not None
        and not is_known_unreadable(file, held)
        and _unchanged(file, known.get(path, [])) is None
    ]


def is_known_unreadable(file: SeenFile, held: Catalogued) -> bool:
    """Tell whether a file could not be decoded and has not changed since."""
    before, stamp = held.unreadable.get(file.path), file.stamp
    if before is None or stamp is None:
        return False
    return before[1:4] == (stamp.size, stamp.modified, stamp.changed)


def make_plan(
    index_folder: Path,
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
    return _Planner(index_folder, held, scan, digests).plan(remove, allow_empty)


def texts_of(rows: Sequence[PathRow]) -> list[str]:
    """Return the captions that came with the files of an image, each once."""
    texts = (
        text
        for row in rows
        if row.captions != "{}"
        for texts in json.loads(row.captions).values()
        for text in texts
    )
    return list(dict.fromkeys(texts))


def path_row(
    locations: Locations, image_id: int, file: SeenFile, seen_at: float, captions_before: str
) -> PathRow:
    """Return the row of a file whose bytes are those of an image.

    Of `captions_before`, as in `PathRow`, those stay whose source was not read.
    """
    captions = captions_json({**json.loads(captions_before), **file.captions})
    folder = "" if file.folder is None else locations.stored(str(file.folder))
    row = PathRow(image_id, locations.stored(file.path), folder, captions=captions)
    stamp = file.stamp
    if stamp is None or not stamp.settled(seen_at):
        return row
    return row._replace(size=stamp.size, modified=stamp.modified, changed=stamp.changed)


def captions_json(captions: Mapping[str, Sequence[str]]) -> str:
    """Return captions as a `PathRow` has them."""
    return json.dumps(
        {key: captions[key] for key in sorted(captions) if captions[key]}, ensure_ascii=False
    )


class _Planner:
    def __init__(
        self, index_folder: Path, held: Catalogued, scan: Scan, digests: Mapping[str, str]
    ) -> None:
        self._folder = index_folder
        self._held = held
        self._locations = held.locations
        self._scan = scan
        self._digests = digests
        self._known = held.rows_by_path()
        self._plan = Plan()
        self._stored_folders: dict[Path, str] = {}

    def plan(self, remove: bool, allow_empty: bool) -> Plan:
        plan, held = self._plan, self._held
        protected = set() if allow_empty else set(self._protected())
        self._adopt_digests()
        owners: dict[str, int] = {}
        for id_ in sorted(held.sha256):
            owners.setdefault(held.sha256[id_] or f"unknown {id_}", id_)
        seen: dict[int, list[PathRow]] = {}
        for path, file in self._scan.files.items():
            sha256 = self._sha256(file)
            if sha256 is None:
                continue
            mine = [row for row in self._known.get(path, []) if self._is(row, sha256)]
            ids = [row.image_id for row in mine]
            if not ids and sha256 in owners:
                ids = [owners[sha256]]
            for id_ in ids:
                seen.setdefault(id_, []).append(self._row(id_, file, mine))
            if not ids:
                self._note_new(file, sha256)
        for id_, rows in held.paths.items():
            self._settle(id_, rows, seen.get(id_, []), protected, remove)
        plan.lapsed = [path for path in held.removed[1] if self._has_lapsed(path, protected)]
        plan.counts.added = len(plan.new) - len(plan.replaced)
        plan.counts.copies += sum(len(files) - 1 for files in plan.new.values())
        plan.counts.changed += len(plan.replaced)
        plan.counts.removed = len(plan.removed)
        return plan

    def _has_lapsed(self, path: str, protected: set[Path]) -> bool:
        row = PathRow(0, path)
        seen = self._locations.absolute(path) in self._scan.files
        return not seen and self._may_vanish(row, protected, moved=False)

    def _note_new(self, file: SeenFile, sha256: str) -> None:
        """Take a file for a new picture, unless its image was removed by name."""
        shas, paths = self._held.removed
        removed = sha256 in shas or self._locations.stored(file.path) in paths
        if removed and file.folder is not None:
            self._plan.withheld.append(file)
        else:
            self._plan.new.setdefault(sha256, []).append(file)

    def _settle(
        self,
        id_: int,
        rows: list[PathRow],
        seen: list[PathRow],
        protected: set[Path],
        remove: bool,
    ) -> None:
        """Decide which files an image has from now on, and whether it stays."""
        plan, names = self._plan, {row.path for row in seen}
        before = {row.path for row in rows}
        fresh = [row for row in seen if row.path not in before]
        kept, vanished, lost = list(seen), [], []
        for row in rows:
            if row.path in names:
                continue
            file = self._scan.files.get(self._locations.absolute(row.path))
            if file is not None and self._sha256(file) is not None:
                lost.append((row, file))
            elif file is not None or not self._may_vanish(row, protected, bool(fresh)):
                kept.append(row)
            else:
                vanished.append(row)
        if self._is_backed_up(id_, kept, fresh, lost):
            return
        plan.counts.present += len(seen) - len(fresh)
        if kept:
            moved = min(len(fresh), len(vanished) + len(lost))
            plan.counts.moved += moved
            plan.counts.copies += len(fresh) - moved
            plan.paths[id_] = _carried(kept, [*vanished, *(row for row, _ in lost)], fresh)
            return
        if self._replace(id_, rows, lost):
            return
        if vanished and not remove:
            plan.paths[id_] = rows
            plan.vanished += [self._locations.absolute(row.path) for row in vanished]
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
        sha256 = self._held.sha256[id_]
        copies = {row.path for row in fresh}
        if not lost or not copies or len(kept) != len(copies):
            return False
        if not all(any(_is_backup(path, row.path) for row, _ in lost) for path in copies):
            return False
        if not self._replace(id_, self._held.paths[id_], lost):
            return False
        files = [self._scan.files[self._locations.absolute(path)] for path in sorted(copies)]
        self._plan.new[sha256] = files
        return True

    def _protected(self) -> Iterator[Path]:
        """Yield the folders of which nothing may be removed, and note why.

        They are the named folders, and the disks that are or were mounted within them.
        """
        scan, held = self._scan, self._held
        devices: dict[Path, int | None] = {**scan.named, **scan.mounts}
        before = {Path(row.path): row.device for row in held.folders_before}
        for folder, device in before.items():
            around = [scan.named[named] for named in scan.named if folder.is_relative_to(named)]
            if around and device not in (None, *around):  # it was mounted there
                devices.setdefault(folder, _device(folder))
        for folder, device in devices.items():
            below = [path for path in self._known if path.startswith(f"{folder}/")]
            if not below:
                continue
            known = before.get(folder)
            gone = any(path not in scan.files for path in below)
            if device is None:
                why = "is not there or cannot be read"
            elif not scan.holds_pictures(folder):
                why = "holds no pictures any more"
                if folder not in scan.named and known == device:
                    continue
            elif known not in (None, device) and gone:
                why = "is on another device than before"
            else:
                continue
            self._plan.reasons[folder] = (
                f"the folder {folder} {why}, so nothing of it is removed: connect its disk, or "
                "give --allow-empty if its pictures are gone for good"
            )
            yield folder

    def _may_vanish(self, row: PathRow, protected: set[Path], moved: bool) -> bool:
        """Tell whether a file that was not seen is gone, not only out of reach.

        With `moved`, its bytes lie elsewhere now.
        """
        path = Path(self._locations.absolute(row.path))
        if path.is_relative_to(self._folder):  # the index's own pictures
            return False
        named = [folder for folder in self._scan.named if path.is_relative_to(folder)]
        if not named:
            return moved and not os.path.lexists(path)
        unsure = [*protected, *(place for place in self._scan.unknown if place not in named)]
        return not any(path.is_relative_to(place) for place in unsure)

    def _adopt_digests(self) -> None:
        """Take files whose images were never hashed for what was encoded."""
        for path, rows in self._known.items():
            for row in rows:
                if not self._held.sha256.get(row.image_id) and path in self._digests:
                    self._held.sha256[row.image_id] = self._digests[path]
                    self._plan.hashed[row.image_id] = self._digests[path]

    def _sha256(self, file: SeenFile) -> str | None:
        """Return the SHA-256 of a file; None where it is not known."""
        if file.stamp is None:
            return None
        same = _unchanged(file, self._known.get(file.path, []))
        if same is not None:
            return self._held.sha256[same.image_id]
        return self._digests.get(file.path)

    def _is(self, row: PathRow, sha256: str) -> bool:
        return self._held.sha256[row.image_id] == sha256

    def _row(self, id_: int, file: SeenFile, mine: Sequence[PathRow]) -> PathRow:
        before = next((row for row in mine if row.image_id == id_), None)
        if before is not None and _unchanged(file, [before]) is not None:
            folder = before.folder if file.folder is None else self._stored_folder(file.folder)
            captions = captions_json({**json.loads(before.captions), **file.captions})
            return before._replace(folder=folder, captions=captions)
        captions_before = "{}" if before is None else before.captions
        row = path_row(self._locations, id_, file, self._scan.seen_at, captions_before)
        if before is not None and file.folder is None:
            return row._replace(folder=before.folder)
        return row

    def _stored_folder(self, folder: Path) -> str:
        if folder not in self._stored_folders:
            self._stored_folders[folder] = self._locations.stored(str(folder))
        return self._stored_folders[folder]


def _carried(
    kept: list[PathRow], dropped: Sequence[PathRow], fresh: Sequence[PathRow]
) -> list[PathRow]:
    """Let the captions of tables follow a file that moved; those beside it have moved or not."""
    if not fresh:
        return kept
    to = fresh[0]
    carried: dict[str, list[str]] = {}
    for row in dropped:
        carried |= {key: texts for key, texts in json.loads(row.captions).items() if key}
    if not carried:
        return kept
    captions = captions_json({**carried, **json.loads(to.captions)})
    return [row._replace(captions=captions) if row is to else row for row in kept]


def _is_backup(path: str, original: str) -> bool:
    """Tell whether a file is named like the copy that a program keeps beside a picture."""
    copy, picture = PurePath(path), PurePath(original)
    if copy.parent != picture.parent:
        return False
    rest = copy.stem.removeprefix(picture.stem)
    return copy.name.startswith(picture.name) or (
        copy.stem.startswith(picture.stem) and _BACKUP.fullmatch(rest) is not None
    )


def _device(folder: Path) -> int | None:
    try:
        return folder.stat().st_dev
    except OSError:
        return None


def _unchanged(file: SeenFile, rows: Sequence[PathRow]) -> PathRow | None:
    """Return the row that has what a file was when it last had this size and these times."""
    stamp = file.stamp
    if stamp is None:
        return None
    times = (stamp.size, stamp.modified, stamp.changed)
    return next((row for row in rows if (row.size, row.modified, row.changed) == times), None)
