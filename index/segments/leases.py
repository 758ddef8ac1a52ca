"""Which generations are being read: a segment that was merged away waits for its readers.

A reader takes a shared lock on the byte of INDEX/readers whose offset is its generation. A writer
looks for the first byte that is locked before it removes old segments or forgets deletions. The
kernel releases a reader's lock when the process ends, however it ends. Nothing is ever written.
"""

from __future__ import annotations

import fcntl
import os
import struct
from contextlib import suppress
from pathlib import Path

READERS = "readers"

_FLOCK = "hhqqi4x"  # struct flock: type, whence, start, length, process


class Lease:
    """Keeps what one generation consists of on the disk, until released or forgotten.

    Take it before the state of that generation is read: what was replaced before the lock was
    there may be gone already.
    """

    __slots__ = ("_descriptor", "generation")

    def __init__(self, folder: Path, generation: int) -> None:
        """Lock the generation; nothing is locked where there is no READERS and none can be made."""
        self.generation = generation
        self._descriptor = _open(folder)
        if self._descriptor is not None:
            asked = struct.pack(_FLOCK, fcntl.F_RDLCK, os.SEEK_SET, generation, 1, 0)
            # Where a file system knows no such locks, open files alone keep segments readable.
            with suppress(OSError):
                fcntl.fcntl(self._descriptor, fcntl.F_OFD_SETLK, asked)

    def release(self) -> None:
        """Release the generation."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def __del__(self) -> None:
        self.release()


def oldest(folder: Path, generation: int) -> int:
    """Return the oldest generation that a process, this one included, reads; at most this one."""
    descriptor = _open(folder) if generation else None
    if descriptor is None:
        return generation
    try:
        # Of several locks any may be found: look before it for an older one.
        while generation:
            asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, generation, 0)
            found = struct.unpack(_FLOCK, fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, asked))
            if found[0] == fcntl.F_UNLCK:
                break
            generation = found[2]
    except OSError:
        pass
    finally:
        os.close(descriptor)
    return generation


def _open(folder: Path) -> int | None:
    try:
        # Reading is enough for a lock, and may be all that the file's owner allows.
        return os.open(folder / READERS, os.O_RDONLY | os.O_CREAT, 0o666)
    except OSError:
        return None
