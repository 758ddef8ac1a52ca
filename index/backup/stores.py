"""Writes a backup: to a folder, which gets only new files, or to one file (a tar archive)."""

from __future__ import annotations

import tarfile
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import IO, Protocol

from hasse.index import durable
from hasse.index.backup.contents import Progress, copy_checked, damaged_file, open_place
from hasse.index.backup.manifest import MANIFEST, Manifest
from hasse.index.errors import BackupError

ARCHIVE = ".tar"  # ending of a backup in one file
_PARTIAL = ".partial"
_OURS = ("segments", "pictures", "catalog-", MANIFEST)  # prefixes of names in a backup


class Store(Protocol):
    """Files of a backup by their names, such as `segments/image-3f9a/points.npy`."""

    def holds(self, name: str, size: int) -> bool:
        """Return whether the backup has a file of this name and size."""

    def write(self, name: str, source: IO[bytes], size: int) -> None:
        """Write a file of `size` bytes."""

    def finish(self, manifest: Manifest, progress: Progress) -> None:
        """Check all files, write the manifest, and remove files that it does not list.

        Raises:
            BackupError: a file differs from the manifest.
        """


def store_at(place: Path) -> Store:
    """Return the store for a backup at a place.

    Raises:
        BackupError: the place holds something else.
    """
    return ArchiveStore(place) if place.suffix == ARCHIVE else FolderStore(place)


class FolderStore:
    """A backup in a folder, which may hold an earlier backup.

    A file never changes under its name. So the earlier backup is valid until the new one is.
    """

    def __init__(self, folder: Path) -> None:
        """Check the folder (BackupError: it is a file, or holds something else)."""
        self._folder = folder
        self._written: set[Path] = set()
        if folder.exists() and not folder.is_dir():
            raise BackupError(f"{folder} is a file: name a folder, or a new file in {ARCHIVE}")
        for path in folder.iterdir() if folder.exists() else ():
            if not path.name.startswith(_OURS):
                raise BackupError(f"{path} is no part of a backup: name a folder of its own")

    def holds(self, name: str, size: int) -> bool:
        """Return whether the folder has a file of this name and size."""
        with suppress(OSError):
            return (self._folder / name).stat().st_size == size
        return False

    def write(self, name: str, source: IO[bytes], size: int) -> None:
        """Write a file, under another name first."""
        path = self._folder / name
        durable.make_folder(self._folder)
        durable.make_folder(path.parent)
        partial = path.with_name(path.name + _PARTIAL)
        with partial.open("wb") as file:
            copy_checked(source, file)
        durable.move(partial, path)
        self._written.add(path.parent)

    def finish(self, manifest: Manifest, progress: Progress) -> None:
        """Sync and check all files, write the manifest, and remove files that it does not list."""
        if self._written:
            durable.settle(sorted(self._written))
        with open_place(self._folder) as open_:
            damaged = damaged_file(manifest, open_, progress)
        if damaged is not None:
            durable.remove(self._folder / damaged)  # the next run copies it
            raise _damaged(self._folder, damaged)
        durable.write_file(self._folder / MANIFEST, manifest.to_json())
        ours = {*manifest.files, MANIFEST}
        for path in sorted(self._folder.rglob("*"), reverse=True):
            if path.is_dir():
                with suppress(OSError):  # not empty
                    path.rmdir()
            elif path.relative_to(self._folder).as_posix() not in ours:
                durable.remove(path)


class ArchiveStore:
    """A backup in one file, which gets its name when it is complete."""

    def __init__(self, path: Path) -> None:
        """Create the file (BackupError: it exists)."""
        if path.exists():
            raise BackupError(f"{path} exists: choose another name, or remove it")
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path, self._partial = path, path.with_name(path.name + _PARTIAL)
        self._file = self._partial.open("wb")
        self._partial.chmod(0o600)
        self._archive = tarfile.TarFile(fileobj=self._file, mode="w")
        self._written: set[str] = set()

    def holds(self, name: str, size: int) -> bool:
        """Return whether the file was written already."""
        return name in self._written

    def write(self, name: str, source: IO[bytes], size: int) -> None:
        """Append a file."""
        member = tarfile.TarInfo(name)
        member.size = size
        self._archive.addfile(member, source)
        self._written.add(name)

    def finish(self, manifest: Manifest, progress: Progress) -> None:
        """Append the manifest, sync and check all files, and give the archive its name."""
        content = manifest.to_json()
        self.write(MANIFEST, BytesIO(content), len(content))
        self._archive.close()
        durable.sync(self._file)
        self._file.close()
        with open_place(self._partial) as open_:
            damaged = damaged_file(manifest, open_, progress)
        if damaged is not None:
            durable.remove(self._partial)
            raise _damaged(self._path, damaged)
        durable.rename(self._partial, self._path)


def _damaged(place: Path, name: str) -> BackupError:
    return BackupError(
        f"{name} in {place} differs from the library: run the same command again, and if it "
        "fails again, 'hasse status --verify'"
    )
