"""Files that are there whole or not at all, in folders that one process at a time writes."""

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

from models.errors import HasseError


class FolderTakenError(HasseError):
    """A folder that another process is writing to; the message says what to do."""

    def __init__(self, folder: Path) -> None:
        super().__init__(
            f"another process is writing to {folder}: wait for it, or name another --out"
        )


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Keep other processes that ask for it out of a folder, which is made if it is not there.

    The kernel lets go of it when the process ends, however it ends.

    Raises:
        FolderTakenError: another process is in it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FolderTakenError(folder) from None
        yield
    finally:
        os.close(descriptor)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file in one step that survives a crash; a reader never meets half of it."""
    partial = path.with_name(f"{path.name}.partial")
    partial.write_bytes(content)
    put_in_place(partial, path)


def write_weights(
    path: Path, weights: Mapping[str, Tensor], notes: Mapping[str, str] | None = None
) -> None:
    """Write tensors, which may be on any device, as one safetensors file, as `write_whole` does.

    `notes` are kept in its header.

    Raises:
        OSError: it cannot be written; nothing is left of it.
    """
    partial = path.with_name(f"{path.name}.partial")
    tensors = {key: value.detach().cpu().contiguous() for key, value in weights.items()}
    try:
        save_file(tensors, partial, dict(notes) if notes else None)
    except SafetensorError as error:
        partial.unlink(missing_ok=True)  # a disk that is full has no room for a part
        if number := re.search(r"\(os error (\d+)\)", str(error)):
            code = int(number[1])
            raise OSError(code, os.strerror(code), str(path)) from error
        raise
    partial.chmod(0o644)  # safetensors makes it its owner's alone; a container reads it as another
    put_in_place(partial, path)


def put_in_place(partial: Path, path: Path) -> None:
    """Give a finished file its name: its data reaches the disk before the name does."""
    with partial.open("rb") as file:
        os.fsync(file.fileno())
    partial.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
