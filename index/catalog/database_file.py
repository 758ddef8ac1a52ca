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
        self._file: tuple[int, int] | None = None  # its device and inode

    def remember(self) -> None:
        """Remember the file, which was just opened; only the first time counts."""
        if self._file is None:
            self._file = self._found()

    def check(self) -> None:
        """Compare what lies at the path with what was opened there, if anything was.

        Raises:
            CatalogUnreachableError: it is another file, or none.
        """
        if self._file is None:
            return
        try:
            if self._found() == self._file:
                return
            why = "it was replaced"
        except OSError as error:
            why = os.strerror(error.errno or 0)
        raise CatalogUnreachableError(
            f"{self._path} is no longer the file that is open here ({why}): restore it, unless "
            "you replaced it yourself, and open the index again"
        )

    def _found(self) -> tuple[int, int]:
        status = self._path.stat()
        return status.st_dev, status.st_ino
