"""The files of an index as its catalog has them, to compare a scan of folders with."""

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
class CatalogState:
    """The images, files and folders of one generation of an index.

    Attributes:
        sha256: the SHA-256 of each image, by image id.
        paths: the files of each image, in order of their paths.
        locations: the folders of the catalog, updated by the scan.
        folders_before: the folders of the catalog, before the scan.
        removed_sha256, removed_paths: those of files whose images were removed by name.
        unreadable_files: files that could not be read as pictures, by absolute path.
        files: the files of all images, by absolute path.
        sidecars: the state of the sidecars when they were read, by image id.
    """

    index_folder: Path
    generation: int
    sha256: dict[int, str]
    paths: dict[int, list[PathRow]]
    locations: Locations
    folders_before: Sequence[FolderRow]
    removed_sha256: set[str]
    removed_paths: set[str]
    unreadable_files: dict[str, UnreadableFile]
    files: dict[str, list[PathRow]]
    sidecars: dict[int, str]

    @classmethod
    def of(cls, index: Index, folders: Iterable[FolderRow]) -> CatalogState:
        """Read the visible generation; `folders` are the rows of the scanned folders."""
        while True:
            state = cls._read(index, folders)
            if index.catalog.generation() == state.generation:
                return state

    @classmethod
    def _read(cls, index: Index, folders: Iterable[FolderRow]) -> CatalogState:
        catalog = index.catalog
        generation, sha256 = catalog.generation(), catalog.sha256s()
        locations_before = catalog.locations(index.folder)
        locations = locations_before.with_folders(folders)
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
            tuple(locations_before.folders.values()),
            *catalog.removed_files(),
            {
                locations.absolute(file.path): file
                for file in catalog.unreadable_files()
                if file.version in (VERSION, ANY_VERSION)
            },
            files,
            catalog.sidecars(),
        )

    def is_unreadable(self, file: SeenFile) -> bool:
        """Return whether a file can never be read as a picture, and has not changed since."""
        return self.has_failed_before(file) and self.unreadable_files[file.path].version == VERSION

    def has_failed_before(self, file: SeenFile) -> bool:
        """Return whether a file could not be read the last time, and has not changed since."""
        row, stamp = self.unreadable_files.get(file.path), file.stamp
        if row is None or stamp is None:
            return False
        return row[1:4] == (stamp.size, stamp.modified, stamp.changed)

    def unchanged_row(self, file: SeenFile) -> PathRow | None:
        """Return the row of a file whose size and times are still the same."""
        return row_with_stamp(file, self.files.get(file.path, []))

    def files_to_hash(self, scan: Scan) -> list[SeenFile]:
        """Return the files whose bytes must be read: new ones, and those that may have changed."""
        return [
            file
            for file in scan.files.values()
            if file.stamp is not None
            and not self.is_unreadable(file)
            and self.unchanged_row(file) is None
        ]

    def changed_folders(self, scan: Scan, unreachable: Collection[Path]) -> list[FolderRow]:
        """Return the folders of a scan whose rows in the catalog are missing or differ.

        The rows of `unreachable` folders stay the same.
        """
        locations = self.locations
        rows = [
            row._replace(beside=os.path.relpath(path, self.index_folder))
            for path, row in scan.roots.items()
            if path not in unreachable and row.device is not None
        ]
        rows += [
            locations.folder_row(path, device)
            for path, device in scan.mounts.items()
            if path not in unreachable
        ]
        parents = {Path(file.path).parent for file in scan.files.values() if file.folder is None}
        rows += [
            locations.folder_row(path, None)
            for path in parents
            if locations.root_of(str(path)) is None
        ]
        known_rows = set(self.folders_before)
        return [row for row in dict.fromkeys(rows) if row not in known_rows]


def row_with_stamp(file: SeenFile, rows: Sequence[PathRow]) -> PathRow | None:
    """Return the first of `rows` that has the size and times of a file."""
    stamp = file.stamp
    if stamp is None:
        return None
    times = (stamp.size, stamp.modified, stamp.changed)
    return next((row for row in rows if (row.size, row.modified, row.changed) == times), None)
