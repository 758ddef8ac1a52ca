"""What an index holds when a folder is compared with it."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version as installed_version
from pathlib import Path

from hasse.index.catalog.locations import Locations
from hasse.index.store import Index
from hasse.index.types import FolderRow, PathRow, UnreadableFile
from hasse.service.writing.folders.scan import Scan, SeenFile

VERSION = installed_version("hasse-search")
# The version of files that a higher limit or another package may make readable.
ANY_VERSION = ""


@dataclass(slots=True)
class Catalogued:
    """What a generation of an index holds.

    Attributes:
        sha256: that of each image, by its id.
        paths: the files of each image, in order of their paths.
        locations: with the folders that were scanned, as they are now.
        folders_before: the folders as the catalog has them.
        removed: SHA-256 and paths of files whose images were removed by name.
        unreadable: files that could not be read as pictures, by absolute path.
        files: the files of all images, by absolute path.
        sidecars: which state of its sidecars was read, by image id.
    """

    index_folder: Path
    generation: int
    sha256: dict[int, str]
    paths: dict[int, list[PathRow]]
    locations: Locations
    folders_before: Sequence[FolderRow]
    removed: tuple[set[str], set[str]]
    unreadable: dict[str, UnreadableFile]
    files: dict[str, list[PathRow]]
    sidecars: dict[int, str]

    @classmethod
    def of(cls, index: Index, folders: Iterable[FolderRow]) -> Catalogued:
        """Read the visible generation; `folders` are those that were scanned, as they are now."""
        while True:
            found = cls._read(index, folders)
            if index.catalog.generation() == found.generation:
                return found

    @classmethod
    def _read(cls, index: Index, folders: Iterable[FolderRow]) -> Catalogued:
        catalog = index.catalog
        generation, sha256 = catalog.generation(), catalog.sha256s()
        before = catalog.locations(index.folder)
        locations = before.updated(folders)
        paths: dict[int, list[PathRow]] = {id_: [] for id_ in sha256}
        files: dict[str, list[PathRow]] = {}
        for row in sorted(catalog.all_paths(), key=lambda row: row.path):
            paths.setdefault(row.image_id, []).append(row)
            files.setdefault(locations.absolute(row.path), []).append(row)
        return cls(
            index.folder,
            generation,
            sha256,
            paths,
            locations,
            tuple(before.folders.values()),
            catalog.removed(),
            {
                locations.absolute(file.path): file
                for file in catalog.unreadable()
                if file.version in (VERSION, ANY_VERSION)
            },
            files,
            catalog.sidecars(),
        )

    def is_unreadable(self, file: SeenFile) -> bool:
        """Tell whether a file can never be read as a picture, and has not changed since."""
        return self.failed_before(file) and self.unreadable[file.path].version == VERSION

    def failed_before(self, file: SeenFile) -> bool:
        """Tell whether a file could not be read the last time, and has not changed since."""
        before, stamp = self.unreadable.get(file.path), file.stamp
        if before is None or stamp is None:
            return False
        return before[1:4] == (stamp.size, stamp.modified, stamp.changed)

    def unchanged(self, file: SeenFile) -> PathRow | None:
        """Return the row that has what a file was when it last had this size and these times."""
        return unchanged(file, self.files.get(file.path, []))

    def unhashed(self, scan: Scan) -> list[SeenFile]:
        """Return the files whose bytes must be read: new ones, and those that may have changed."""
        return [
            file
            for file in scan.files.values()
            if file.stamp is not None
            and not self.is_unreadable(file)
            and self.unchanged(file) is None
        ]

    def changed_folders(self, scan: Scan, away: Collection[Path]) -> list[FolderRow]:
        """Return the folders of a scan that the catalog does not have as they are now.

        Those that are `away` stay as they were.
        """
        locations = self.locations
        rows = [
            row._replace(beside=os.path.relpath(path, self.index_folder))
            for path, row in scan.roots.items()
            if path not in away and row.device is not None
        ]
        rows += [
            locations.folder(path, device)
            for path, device in scan.mounts.items()
            if path not in away
        ]
        singly = {Path(file.path).parent for file in scan.files.values() if file.folder is None}
        rows += [
            locations.folder(path, None) for path in singly if locations.root_of(str(path)) is None
        ]
        known = set(self.folders_before)
        return [row for row in dict.fromkeys(rows) if row not in known]


def unchanged(file: SeenFile, rows: Sequence[PathRow]) -> PathRow | None:
    """Return that of some rows which has the size and the times of a file."""
    stamp = file.stamp
    if stamp is None:
        return None
    times = (stamp.size, stamp.modified, stamp.changed)
    return next((row for row in rows if (row.size, row.modified, row.changed) == times), None)
