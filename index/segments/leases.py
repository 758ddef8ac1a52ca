"""Leases: which generations are being read. Old segments stay until nobody reads them.

A reader takes a shared lock on the byte of INDEX/readers whose offset is its generation. A writer
looks for the first byte that is locked before it removes old segments or forgets deletions. The
kernel releases a reader's lock when the process ends, however it ends. Nothing is ever written.
Where the catalog is a server, readers share locks on numbers there, for all machines to see.
"""

from __future__ import annotations

import fcntl
import os
import struct
from contextlib import suppress
from pathlib import Path

from hasse.index.catalog.database import Database, SharedLocks

READERS = "readers"

_FLOCK = "hhqqi4x"  # struct flock: type, whence, start, length, process


class Lease:
    """Keeps the segments of one generation on the disk until it is released or deleted.

    Take it before the state of that generation is read: segments that were replaced before the
    lock was taken may be gone.
    """

    __slots__ = ("_descriptor", "generation")

    def __init__(self, folder: Path, generation: int) -> None:
        """Lock the generation; nothing is locked where there is no READERS and none can be made."""
        self.generation = generation
        self._descriptor = _open(folder)
        if self._descriptor is not None:
            request = struct.pack(_FLOCK, fcntl.F_RDLCK, os.SEEK_SET, generation, 1, 0)
            # Where a file system knows no such locks, open files alone keep segments readable.
            with suppress(OSError):
                fcntl.fcntl(self._descriptor, fcntl.F_OFD_SETLK, request)

    def release(self) -> None:
        """Release the generation."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def renew(self) -> None:
        """Check that the generation is still locked; lock it again if not."""

    def __del__(self) -> None:
        self.release()


class ServerLease(Lease):
    """Keeps the segments of one generation, for processes on all machines."""

    __slots__ = ("_locks",)

    def __init__(self, locks: SharedLocks, generation: int) -> None:
        """Lock the generation (CatalogUnreachableError: the server does not answer)."""
        self.generation = generation
        self._locks: SharedLocks | None = None
        locks.take(generation)
        self._locks = locks

    def release(self) -> None:
        """Release the generation."""
        locks, self._locks = self._locks, None
        if locks is not None:
            locks.release(self.generation)

    def renew(self) -> None:
        """Check that the generation is still locked; lock it again if not."""
        if self._locks is not None:
            self._locks.renew()


def lease(folder: Path, catalog: Database, generation: int) -> Lease:
    """Lock a generation of an index, in a place that all its writers look at."""
    if catalog.is_server:
        return ServerLease(catalog.shared_locks, generation)
    return Lease(folder, generation)


def oldest_leased(folder: Path, catalog: Database, generation: int) -> int:
    """Return the oldest generation that a process on any machine reads; at most this one."""
    if not catalog.is_server:
        return oldest(folder, generation)
    oldest_shared = catalog.shared_locks.smallest()
    return generation if oldest_shared is None else min(oldest_shared, generation)


def oldest(folder: Path, generation: int) -> int:
    """Return the oldest generation that a process of this machine reads; at most this one."""
    descriptor = _open(folder) if generation else None
    if descriptor is None:
        return generation
    try:
        # The kernel returns any of several locks: look for an older one before it.
        while generation:
            request = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, generation, 0)
            lock = struct.unpack(_FLOCK, fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, request))
            if lock[0] == fcntl.F_UNLCK:
                break
            generation = lock[2]
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
