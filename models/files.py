"""Files that are there whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """Write a file in one step that survives a crash; a reader never meets half of it."""
    partial = path.with_name(f"{path.name}.partial")
    partial.write_bytes(content)
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
