"""Copies of segments on a machine's own disk: resumable, and checked by SHA-256."""

from __future__ import annotations

import fcntl
import os
import shutil
from contextlib import suppress
from pathlib import Path

from hasse.index import durable
from hasse.index.catalog.records import FileRecord, SegmentRecord
from hasse.index.errors import ChecksumError, DamagedIndexError, disk_full_reported
from hasse.index.segments.segment import check_file

_BLOCK = 1 << 22


def local_copy(source: Path, copies: Path, record: SegmentRecord) -> Path:
    """Return the folder below `copies` that holds a copy of a segment; copy missing files.

    A copy that was stopped goes on where it was; one that was changed since is made anew.

    Raises:
        ChecksumError: the source is damaged, or was not read or written right.
        DiskFullError: there is no room.
    """
    target = copies / record.name
    with disk_full_reported(copies):
        target.mkdir(parents=True, exist_ok=True)
        for name, file in record.files.items():
            if not _is_whole(target / name, file):
                _copy(source / name, target / name, file)
    return target


def remove_others(source: Path, copies: Path) -> None:
    """Remove copies of segments that are not in `source` any more, where that can be read."""
    with suppress(OSError):
        copied = list(copies.iterdir())  # first, since a copy finished by now had a source
        present = {path.name for path in source.iterdir()}
        for path in copied:
            if path.name not in present:
                shutil.rmtree(path, ignore_errors=True)


def _is_whole(path: Path, file: FileRecord) -> bool:
    try:
        check_file(path, file, "checksums")
    except DamagedIndexError:
        return False
    return True


def _copy(source: Path, target: Path, file: FileRecord) -> None:
    partial = target.with_name(target.name + ".partial")
    with partial.open("ab") as made:
        fcntl.flock(made, fcntl.LOCK_EX)  # another replica on this machine may be at it
        if _is_whole(target, file):
            return
        with source.open("rb") as given:
            given.seek(made.seek(0, os.SEEK_END))
            while block := given.read(_BLOCK):
                made.write(block)
        durable.sync(made)
        if not _is_whole(partial, file):
            partial.unlink()
            raise ChecksumError(
                f"the copy of {source} in {target.parent} differs from the checksum of the source",
                "restore the source from a backup, or look whether the disks work",
            )
        durable.rename(partial, target)
