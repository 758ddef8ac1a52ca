"""Notifications of a change, for other processes of this machine that search the same index.

A process that has changed the index, and is about to acknowledge it, writes other bytes to
INDEX/notifications. A search compares them with those it saw last, which takes a microsecond, and
loads the new generation where they differ. A process that cannot read the file, or is on another
machine, finds new generations by looking for them now and then.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

NOTIFICATIONS = "notifications"

_BYTES = 8


class Notifications:
    """The file of one index; where there is none and none can be made, nothing is ever sent."""

    __slots__ = ("_descriptor",)

    def __init__(self, folder: Path) -> None:
        """Open the file, and make it where there is none and it can be made."""
        self._descriptor: int | None = None
        for flags in (os.O_RDWR | os.O_CREAT, os.O_RDONLY):
            with suppress(OSError):
                self._descriptor = os.open(folder / NOTIFICATIONS, flags, 0o666)
                break

    def latest(self) -> bytes:
        """Return the bytes of the last notification of any process."""
        if self._descriptor is not None:
            with suppress(OSError):
                return os.pread(self._descriptor, _BYTES, 0)
        return b""

    def send(self) -> None:
        """Notify all processes of a change, as far as the file can be written."""
        if self._descriptor is not None:
            with suppress(OSError):
                os.pwrite(self._descriptor, os.urandom(_BYTES), 0)

    def close(self) -> None:
        """Close the file."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)
