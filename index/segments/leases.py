"""Leases: locks on generations that are read. Old segments stay until no reader uses them.

A reader takes a shared lock on the byte of INDEX/readers whose offset is its generation. A writer
looks for the first locked byte before it removes old segments or deletions. The kernel releases a
reader's lock when the process ends, also after a crash. Nothing is ever written to the file. Where
the catalog is a server, the locks are there, so that all machines see them.
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

    Take it before you read the state of that generation: segments that were replaced earlier may be
    gone.
    """

    __slots__ = ("_descriptor", "generation")

    def __init__(self, folder: Path, generation: int) -> None:
        """Lock the generation, unless READERS is missing and cannot be made."""
        self.generation = generation
        self._descriptor = _open(folder)
        if self._descriptor is not None:
            request = struct.pack(_FLOCK, fcntl.F_RDLCK, os.SEEK_SET, generation, 1, 0)
            # On a file system without such locks, only open files keep segments readable.
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


def take_lease(folder: Path, catalog: Database, generation: int) -> Lease:
    """Lock a generation of an index, in the file or on the server, as its writers check it."""
    if catalog.is_server:
        return ServerLease(catalog.shared_locks, generation)
    return Lease(folder, generation)


def oldest_lease(folder: Path, catalog: Database, generation: int) -> int:
    """Return the oldest generation that a process on any machine reads; at most `generation`."""
    if not catalog.is_server:
        return oldest_local_lease(folder, generation)
    oldest_shared = catalog.shared_locks.smallest()
    return generation if oldest_shared is None else min(oldest_shared, generation)


def oldest_local_lease(folder: Path, generation: int) -> int:
    """Return the oldest generation that a process of this machine reads; at most `generation`."""
    descriptor = _open(folder) if generation else None
    if descriptor is None:
        return generation
    try:
        # The kernel returns any one of several locks, so look for an older one again.
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
        # A lock needs read access only, and the owner may allow no more.
        return os.open(folder / READERS, os.O_RDONLY | os.O_CREAT, 0o666)
    except OSError:
        return None
