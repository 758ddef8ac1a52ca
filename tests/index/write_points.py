"""Stop a process, or let it fail, at one of the calls that reach the disk."""

from __future__ import annotations

import errno
import os
import signal
import sqlite3
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any

from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError

from hasse.index import durable
from hasse.index.catalog.catalog import Catalog

NO_SPACE = OSError(errno.ENOSPC, "No space left on device")
FULL = sqlite3.OperationalError("database or disk is full")
FULL.sqlite_errorcode = sqlite3.SQLITE_FULL
DATABASE_FULL = OperationalError("COMMIT", None, FULL)


class WritePoints:
    """Counts what reaches the disk and stops the process, or fails, at one of them."""

    def __init__(self, stop_at: int, *, full: bool) -> None:
        self.passed = 0
        self._stop_at = stop_at
        self._full = full
        # What a killed process wrote is not lost, synced or not; waiting for the disk is.
        setattr(os, "fsync", lambda _descriptor: None)  # noqa: B010
        for name in ("sync", "sync_folder", "settle", "move", "rename", "remove"):
            setattr(durable, name, self._guarded(getattr(durable, name)))
        setattr(durable, "write", self._halved(durable.write))  # noqa: B010
        setattr(Catalog, "writing", self._committing(Catalog.writing))  # noqa: B010

    def point(self, error: Exception) -> None:
        """Pass one write point, or end here: by a kill, or with the error of a full disk."""
        self.passed += 1
        if self.passed == self._stop_at:
            if self._full:
                raise error
            os.kill(os.getpid(), signal.SIGKILL)

    def _guarded(self, verb: Callable[..., None]) -> Callable[..., None]:
        def guarded(*args: Any) -> None:
            # Removing needs no room.
            if not (self._full and verb.__name__ == "remove"):
                self.point(NO_SPACE)
            verb(*args)

        return guarded

    def _halved(self, verb: Callable[..., None]) -> Callable[..., None]:
        def guarded(file: IO[bytes], data: bytes | memoryview) -> None:
            self.point(NO_SPACE)
            half = len(data) // 2
            verb(file, data[:half])
            file.flush()
            self.point(NO_SPACE)
            verb(file, data[half:])

        return guarded

    def _committing(self, writing: Callable[..., Any]) -> Callable[..., Any]:
        @contextmanager
        def guarded(catalog: Catalog) -> Iterator[Connection]:
            with writing(catalog) as connection:
                yield connection
                self.point(DATABASE_FULL)
            if not self._full:
                self.point(DATABASE_FULL)

        return guarded


def forked(work: Callable[[], None]) -> tuple[int, str]:
    """Run `work` in a fork; return how it ended and what it raised."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        status = 0
        try:
            work()
        except BaseException:
            os.write(writer, traceback.format_exc()[-3000:].encode())
            status = 1
        os._exit(status)
    os.close(writer)
    with os.fdopen(reader) as said:
        text = said.read()
    _, status = os.waitpid(child, 0)
    return status, text
