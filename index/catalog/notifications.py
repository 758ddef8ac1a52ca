"""Word of a change, for other processes of this machine that search the same index.

Whoever has changed the index, and is about to say so, writes other bytes to INDEX/news; a search
compares them with those it has heard, which takes a microsecond, and looks for the new generation
where they differ. Nothing is lost with the file: a process that hears nothing, because it may not
write there or the file system is shared with another machine, looks for generations now and then.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

NEWS = "news"

_BYTES = 8


class News:
    """The file of one index; without one, there is never any news."""

    __slots__ = ("_descriptor",)

    def __init__(self, folder: Path) -> None:
        """Open the file, and make it where there is none and it can be made."""
        self._descriptor = _opened(folder)

    def word(self) -> bytes:
        """Return the last word that was spread, by whomever."""
        if self._descriptor is None:
            return b""
        with suppress(OSError):
            return os.pread(self._descriptor, _BYTES, 0)
        return b""

    def spread(self) -> None:
        """Say that there is a change; what cannot be said is found by those who look."""
        if self._descriptor is not None:
            with suppress(OSError):
                os.pwrite(self._descriptor, os.urandom(_BYTES), 0)

    def close(self) -> None:
        """Let go of the file."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def _opened(folder: Path) -> int | None:
    for flags in (os.O_RDWR | os.O_CREAT, os.O_RDONLY):
        with suppress(OSError):
            return os.open(folder / NEWS, flags, 0o666)
    return None
