"""Files written whole or not at all, and folders that one process at a time writes."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from hasse.models.errors import HasseError


class FolderLockedError(HasseError):
    """A folder that another process is writing to."""

    def __init__(self, folder: Path) -> None:
        super().__init__(
            f"another process is writing to {folder}: wait for it, or name another --out"
        )


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Lock a folder, made if it is missing, against others that call this.

    The kernel releases the lock when the process ends, however it ends.

    Raises:
        FolderLockedError: another process holds it.
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
    """Write a file in one step that survives a crash: readers see all of it or none."""
    partial = path.with_name(f"{path.name}.partial")
    partial.write_bytes(content)
    publish_file(partial, path)


def write_at(path: Path, at: int, block: bytes) -> None:
    """Write a block to the disk at a place of a file, and cut off all that is beyond it."""
    with path.open("r+b" if path.exists() else "w+b") as file:
        file.truncate(at)
        file.seek(at)
        file.write(block)
        file.flush()
        os.fsync(file.fileno())


def write_weights(
    path: Path, weights: Mapping[str, Tensor], notes: Mapping[str, str] | None = None
) -> None:
    """Write tensors on any device to one safetensors file, as `write_atomically` does.

    `notes` are stored in its header.

    Raises:
        OSError: it cannot be written; nothing is left of it.
    """
    partial = path.with_name(f"{path.name}.partial")
    tensors = {key: value.detach().cpu().contiguous() for key, value in weights.items()}
    try:
        with system_errors(path):
            save_file(tensors, partial, dict(notes) if notes else None)
    except (SafetensorError, OSError):
        partial.unlink(missing_ok=True)  # a full disk has no room for half a file
        raise
    partial.chmod(0o644)  # safetensors lets only the owner read; a container runs as another user
    publish_file(partial, path)


@contextmanager
def system_errors(path: Path) -> Iterator[None]:
    """Raise the system's errors that safetensors and torch hide while they read or write `path`.

    Raises:
        OSError: with its number, which is in the text of theirs; or `path` is there and cannot be
            opened, which safetensors calls "no such file".
    """
    try:
        yield
    except (SafetensorError, RuntimeError, FileNotFoundError) as error:
        if isinstance(error, FileNotFoundError):
            with path.open("rb"):
                pass
        for number in re.findall(r"\((?:os error )?(\d+)\)", str(error)):
            cause = os.strerror(int(number))
            if cause in str(error):
                raise OSError(int(number), cause, str(path)) from error
        raise


def publish_file(partial: Path, path: Path) -> None:
    """Rename a finished file to its name; its data reaches the disk before the name does."""
    with partial.open("rb") as file:
        os.fsync(file.fileno())
    partial.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
