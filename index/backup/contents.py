"""Reads a backup, a folder or one file, and compares its files with their checksums."""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TypeAlias

from hasse.index import durable
from hasse.index.backup.manifest import MANIFEST, Manifest
from hasse.index.errors import BackupError
from hasse.models.regular_file import open_regular

Opener: TypeAlias = Callable[[str], IO[bytes]]  # opens a file of a backup; OSError if missing
Progress: TypeAlias = Callable[[int, int], None]  # bytes so far, and all of them


@contextmanager
def open_backup(place: Path) -> Iterator[tuple[Manifest, Opener]]:
    """Open a finished backup.

    Raises:
        BackupError: there is none, it was cut short, or a newer version wrote it.
    """
    if not place.exists():
        raise BackupError(f"there is no backup at {place}: check the path")
    with open_place(place) as open_:
        try:
            with open_(MANIFEST) as file:
                content = file.read()
        except OSError as error:
            raise _cut_short(place) from error
        yield Manifest.from_json(content, place), open_


@contextmanager
def open_place(place: Path) -> Iterator[Opener]:
    """Yield the function that opens files of a backup, finished or not.

    Raises:
        BackupError: it is one file, and not a whole archive.
    """
    if place.is_dir():
        yield lambda name: open_regular(place / name)
        return
    try:
        with tarfile.open(place, "r:") as archive:
            members = {member.name: member for member in archive.getmembers()}

            def open_member(name: str) -> IO[bytes]:
                file = archive.extractfile(members[name]) if name in members else None
                if file is None:
                    raise FileNotFoundError(name)
                return file

            yield open_member
    except tarfile.TarError as error:
        raise _cut_short(place) from error


def copy_checked(source: IO[bytes], target: IO[bytes] | None) -> tuple[int, str]:
    """Read a file to its end, copy it to `target` if given; return its size and its SHA-256."""
    digest, size = hashlib.sha256(), 0
    while block := source.read(durable.HASH_BLOCK):
        digest.update(block)
        size += len(block)
        if target is not None:
            durable.write(target, block)
    return size, digest.hexdigest()


def damaged_file(manifest: Manifest, open_: Opener, progress: Progress) -> str | None:
    """Read all files of a backup; return the first that differs from the manifest, or None."""
    done = 0
    for name, record in manifest.files.items():
        try:
            with open_(name) as file:
                if copy_checked(file, None) != (record.bytes, record.sha256):
                    return name
        except OSError:
            return name
        done += record.bytes
        progress(done, manifest.size)
    return None


def _cut_short(place: Path) -> BackupError:
    return BackupError(
        f"the backup {place} was cut short: it has no {MANIFEST}, which is written last; use "
        "another backup, or run 'hasse backup' again"
    )
