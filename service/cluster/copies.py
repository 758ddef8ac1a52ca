"""Copies segments to a machine's own disk: resumable, and checked by SHA-256."""

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
    """Copy the missing files of a segment; return the folder of the copy below `copies`.

    A repeated call continues a stopped copy. A changed copy is made anew.

    Raises:
        ChecksumError: the source is damaged, or was not read or written correctly.
        DiskFullError: there is no room.
    """
    target = copies / record.name
    with disk_full_reported(copies):
        target.mkdir(parents=True, exist_ok=True)
        for name, file in record.files.items():
            if not _is_whole(target / name, file):
                _copy(source / name, target / name, file)
    return target


def remove_outdated(source: Path, copies: Path) -> None:
    """Remove copies of segments that are not in `source` any more, if both can be read."""
    with suppress(OSError):
        copied = list(copies.iterdir())  # first, because a copy that exists now has a source
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
    with partial.open("ab") as output:
        fcntl.flock(output, fcntl.LOCK_EX)  # another replica on this machine may be copying
        if _is_whole(target, file):
            return
        with source.open("rb") as original:
            original.seek(output.seek(0, os.SEEK_END))
            while block := original.read(_BLOCK):
                output.write(block)
        durable.sync(output)
        if not _is_whole(partial, file):
            partial.unlink()
            raise ChecksumError(
                f"the copy of {source} in {target.parent} differs from the checksum of the source",
                "restore the source from a backup, or check the disks",
            )
        durable.rename(partial, target)
