"""Durable file operations: every write of an index goes through these functions.

Crash tests kill the writer or fill the disk at each of them.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

from hasse.models.regular_file import open_regular

HASH_BLOCK = 1 << 22  # bytes read at once while hashing: large enough to keep a disk busy
_SYNCS = 16  # concurrent calls of fsync


def write(file: IO[bytes], data: bytes | memoryview) -> None:
    """Append all of `data` to an open file."""
    file.write(data)


def sync(file: IO[bytes]) -> None:
    """Return when everything written to `file` is on the disk."""
    file.flush()
    os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Return when the names in `folder` are on the disk."""
    _sync(folder)


def make_folder(folder: Path) -> None:
    """Make a folder that only its owner can enter, and its missing parents; durable on return.

    What is derived of private pictures is private. An existing folder keeps its permissions.
    """
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path in missing:
        sync_folder(path.parent)


def settle(folders: Sequence[Path]) -> None:
    """Return when these folders, their files and their own names are on the disk.

    Concurrent syncs are several times faster, because the file system writes its journal once for
    all of them.
    """
    paths = {folder.parent for folder in folders}
    for folder in folders:
        paths |= {folder, *folder.iterdir()}
    with ThreadPoolExecutor(min(len(paths), _SYNCS), thread_name_prefix="hasse-sync") as pool:
        list(pool.map(_sync, paths))


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def move(source: Path, target: Path) -> None:
    """Rename a file or folder; `settle` or `sync_folder` makes that durable."""
    source.replace(target)


def rename(source: Path, target: Path) -> None:
    """Rename a finished file or folder, durably; an existing file is replaced."""
    move(source, target)
    sync_folder(target.parent)


def remove(path: Path) -> None:
    """Remove a file or a folder with its contents, if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def write_file(path: Path, data: bytes) -> None:
    """Write a small file atomically: under another name first, then synced and renamed."""
    partial = path.with_name(path.name + ".partial")
    with partial.open("wb") as file:
        write(file, data)
        sync(file)
    rename(partial, path)


def overwrite(path: Path, data: bytes) -> None:
    """Overwrite a small file in place; durable on return."""
    with path.open("r+b" if path.exists() else "w+b") as file:
        write(file, data)
        sync(file)


def sha256(path: Path) -> str:
    """Return the SHA-256 of a regular file in hexadecimal.

    Raises:
        OSError: the file cannot be read, or is a pipe or a device, which may block or never end.
    """
    digest = hashlib.sha256()
    with open_regular(path) as file:
        while block := file.read(HASH_BLOCK):
            digest.update(block)
    return digest.hexdigest()
