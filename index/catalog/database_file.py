"""Detect that the file of an open SQLite database was removed or replaced.

SQLite goes on with the old file, and whatever it then writes is lost.
"""

from __future__ import annotations

import os
from pathlib import Path

from hasse.index.errors import CatalogUnreachableError


class OpenedFile:
    """The device and inode of a file when it was first opened."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._opened: tuple[int, int] | None = None

    def remember(self) -> None:
        """Remember the file that was just opened; later calls do nothing."""
        if self._opened is None:
            self._opened = self._device_and_inode()

    def check(self) -> None:
        """Check that the path still leads to the file that was opened, if one was.

        Raises:
            CatalogUnreachableError: it leads to another file, or to none.
        """
        if self._opened is None:
            return
        try:
            if self._device_and_inode() == self._opened:
                return
            reason = "it was replaced"
        except OSError as error:
            reason = os.strerror(error.errno or 0)
        raise CatalogUnreachableError(
            f"{self._path} is no longer the file that is open here ({reason}): restore it, unless "
            "you replaced it yourself, and open the index again"
        )

    def _device_and_inode(self) -> tuple[int, int]:
        status = self._path.stat()
        return status.st_dev, status.st_ino
