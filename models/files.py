"""Files written whole or not at all, and locks of folders."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hasse.models.errors import HasseError


class FolderLockedError(HasseError):
    """Another process is writing to a folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(
            f"another process is writing to {folder}: wait for it, or name another --out"
        )


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Lock a folder, made if it is missing, against other calls of this function.

    The kernel releases the lock when the process ends, however it ends.

    Raises:
        FolderLockedError: another process has locked it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FolderLockedError(folder) from None
        yield
    finally:
        os.close(descriptor)


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that readers see all of it or none, also after a crash."""
    partial = path.with_name(f"{path.name}.partial")
    partial.write_bytes(content)
    publish_file(partial, path)


def write_at(path: Path, offset: int, block: bytes) -> None:
    """Write a block to the disk at an offset of a file, and truncate the file after it."""
    with path.open("r+b" if path.exists() else "w+b") as file:
        file.truncate(offset)
        file.seek(offset)
        file.write(block)
        file.flush()
        os.fsync(file.fileno())


def publish_file(partial: Path, path: Path) -> None:
    """Rename a finished file to its name, after its data has reached the disk."""
    with partial.open("rb") as file:
        os.fsync(file.fileno())
    partial.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
