"""Decide how an index follows what a scan has found: by the bytes of files, not by their paths.

A plan depends only on the catalog and on the disk. So one that was carried out in part leads, made
again, to the same end.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hasse.index.catalog.places import absolute_path, stored_path
from hasse.index.store import Index
from hasse.index.types import Kind, PathRow
from hasse.service.pipelines.folders.scan import Scan, SeenFile


@dataclass(slots=True)
class Catalogued:
    """What a generation of an index holds."""

    generation: int
    largest: dict[Kind, int]
    sha256: dict[int, str]
    paths: dict[int, list[PathRow]]
    devices: dict[str, int]

    @classmethod
    def of(cls, index: Index) -> Catalogued:
        """Read the visible generation."""
        catalog = index.catalog
        while True:
            generation = catalog.generation()
            sha256 = catalog.sha256s()
            paths: dict[int, list[PathRow]] = {id_: [] for id_ in sha256}
            for row in sorted(catalog.all_paths(), key=lambda row: row.path):
                paths.setdefault(row.image_id, []).append(row)
            found = cls(generation, catalog.largest_ids(), sha256, paths, catalog.folders())
            if catalog.generation() == generation:
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
    """How the index gets in step.

    Attributes:
        new: pictures that no image has, by SHA-256: the files of each.
        replaced: the images whose picture has become one of those, by SHA-256.
        paths: the files that every image of the index has from now on.
        removed: images that have no file any more.
        vanished: files that are gone, of images that stay in the index.
        kept: why nothing of a folder is removed, one sentence each, by folder.
        hashed: the SHA-256 of images that had none.
    """

    new: dict[str, list[SeenFile]] = field(default_factory=dict)
    replaced: dict[str, int] = field(default_factory=dict)
    paths: dict[int, list[PathRow]] = field(default_factory=dict)
    removed: list[int] = field(default_factory=list)
    vanished: list[str] = field(default_factory=list)
    kept: dict[Path, str] = field(default_factory=dict)
    hashed: dict[int, str] = field(default_factory=dict)
    counts: Counts = field(default_factory=Counts)


def needed_digests(index_folder: Path, held: Catalogued, scan: Scan) -> list[str]:
    """Return the files whose bytes must be read: new ones, and those that may have changed."""
    known = _rows_by_path(index_folder, held)
    return [
        path
        for path, file in scan.files.items()
        if file.stamp is not None and _unchanged(file, known.get(path, [])) is None
    ]


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

    Files that can neither be read nor be used as pictures have none there: what the index holds of
    them stays. With `remove`, images go with the last of their files.
    """
    return _Planner(index_folder, held, scan, digests).plan(remove, allow_empty)


def texts_of(rows: Sequence[PathRow]) -> list[str]:
    """Return the captions that came with the files of an image, each once."""
    said = (
        text
        for row in rows
        if row.captions != "{}"
        for texts in json.loads(row.captions).values()
        for text in texts
    )
    return list(dict.fromkeys(said))


def path_row(
    index_folder: Path,
    image_id: int,
    file: SeenFile,
    seen_at: float,
    said_before: str,
    said: Mapping[str, Sequence[str]],
) -> PathRow:
    """Return the row of a file whose bytes are those of an image.

    Of the captions `said_before`, as in `PathRow`, those stay whose source was not read.
    """
    captions = captions_json({**json.loads(said_before), **said})
    folder = "" if file.folder is None else stored_path(index_folder, str(file.folder))
    stamp = file.stamp if file.stamp is not None and file.stamp.settled(seen_at) else None
    row = PathRow(image_id, stored_path(index_folder, file.path), folder, captions=captions)
    if stamp is None:
        return row
    return row._replace(size=stamp.size, modified=stamp.modified, changed=stamp.changed)


def captions_json(said: Mapping[str, Sequence[str]]) -> str:
    """Return captions as a `PathRow` has them."""
    return json.dumps({key: said[key] for key in sorted(said) if said[key]}, ensure_ascii=False)


class _Planner:
    def __init__(
        self, index_folder: Path, held: Catalogued, scan: Scan, digests: Mapping[str, str]
    ) -> None:
        self._folder = index_folder
        self._held = held
        self._scan = scan
        self._digests = digests
        self._known = _rows_by_path(index_folder, held)
        self._plan = Plan()
        self._folders: dict[Path, str] = {}

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
                plan.new.setdefault(sha256, []).append(file)
        for id_, rows in held.paths.items():
            self._settle(id_, rows, seen.get(id_, []), protected, remove)
        plan.counts.added = len(plan.new) - len(plan.replaced)
        plan.counts.copies += sum(len(files) - 1 for files in plan.new.values())
        plan.counts.changed += len(plan.replaced)
        plan.counts.removed = len(plan.removed)
        return plan

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
        kept, vanished, lost = list(seen), [], []
        for row in rows:
            if row.path in names:
                continue
            file = self._scan.files.get(absolute_path(self._folder, row.path))
            if file is not None and self._sha256(file) is not None:
                lost.append((row, file))
            elif file is not None or not self._may_vanish(row, protected):
                kept.append(row)
            else:
                vanished.append(row)
        before = {row.path for row in rows}
        fresh = [row for row in seen if row.path not in before]
        plan.counts.present += len(seen) - len(fresh)
        if kept:
            moved = min(len(fresh), len(vanished) + len(lost))
            plan.counts.moved += moved
            plan.counts.copies += len(fresh) - moved
            plan.paths[id_] = _carried(kept, [*vanished, *(row for row, _ in lost)], fresh)
            return
        for _, file in lost:
            sha256 = self._sha256(file)
            if sha256 in plan.new and sha256 not in plan.replaced:
                plan.replaced[sha256] = id_
                plan.paths[id_] = rows  # until its new picture is encoded
                return
        if vanished and not remove:
            plan.paths[id_] = rows
            plan.vanished += [absolute_path(self._folder, row.path) for row in vanished]
        elif rows:
            plan.removed.append(id_)

    def _protected(self) -> Iterator[Path]:
        """Yield the named folders of which nothing may be removed, and say why."""
        for folder, device in self._scan.folders.items():
            below = [path for path in self._known if path.startswith(f"{folder}/")]
            if not below:
                continue
            before = self._held.devices.get(stored_path(self._folder, str(folder)), device)
            gone = any(path not in self._scan.files for path in below)
            if device is None:
                why = "is not there or cannot be read"
            elif not self._scan.holds_pictures(folder):
                why = "holds no pictures any more"
            elif before != device and gone:
                why = "is on another device than before"
            else:
                continue
            self._plan.kept[folder] = (
                f"the folder {folder} {why}, so nothing of it is removed: connect its disk, or "
                "give --allow-empty if its pictures are gone for good"
            )
            yield folder

    def _may_vanish(self, row: PathRow, protected: set[Path]) -> bool:
        path = Path(absolute_path(self._folder, row.path))
        if path.is_relative_to(self._folder):  # the index's own pictures
            return False
        named = [folder for folder in self._scan.folders if path.is_relative_to(folder)]
        unsure = [*protected, *(place for place in self._scan.unknown if place not in named)]
        return bool(named) and not any(path.is_relative_to(place) for place in unsure)

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
        said = "{}" if before is None else before.captions
        row = path_row(self._folder, id_, file, self._scan.seen_at, said, file.captions)
        if before is not None and file.folder is None:
            return row._replace(folder=before.folder)
        return row

    def _stored_folder(self, folder: Path) -> str:
        if folder not in self._folders:
            self._folders[folder] = stored_path(self._folder, str(folder))
        return self._folders[folder]


def _carried(
    kept: list[PathRow], dropped: Sequence[PathRow], fresh: Sequence[PathRow]
) -> list[PathRow]:
    """Let the captions of tables follow a file that moved; those beside it have moved or not."""
    if not fresh:
        return kept
    to = fresh[0]
    said: dict[str, list[str]] = {}
    for row in dropped:
        said |= {key: texts for key, texts in json.loads(row.captions).items() if key}
    if not said:
        return kept
    captions = captions_json({**said, **json.loads(to.captions)})
    return [row._replace(captions=captions) if row is to else row for row in kept]


def _rows_by_path(index_folder: Path, held: Catalogued) -> dict[str, list[PathRow]]:
    found: dict[str, list[PathRow]] = {}
    for rows in held.paths.values():
        for row in rows:
            found.setdefault(absolute_path(index_folder, row.path), []).append(row)
    return found


def _unchanged(file: SeenFile, rows: Sequence[PathRow]) -> PathRow | None:
    """Return the row that says what a file was when it last had this size and these times."""
    stamp = file.stamp
    if stamp is None:
        return None
    times = (stamp.size, stamp.modified, stamp.changed)
    return next((row for row in rows if (row.size, row.modified, row.changed) == times), None)
