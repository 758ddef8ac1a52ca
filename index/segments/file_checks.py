"""A background thread that compares large files with their checksums: `Verify` "later"."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

from hasse.index.catalog.records import FileRecord
from hasse.index.errors import DamagedIndexError, HasseIndexError
from hasse.index.kernels.threads import lower_priority
from hasse.index.segments.segment import LARGE_BYTES, check_file
from hasse.index.segments.snapshot import LiveSegment, Snapshot
from hasse.models.regular_file import raise_system_error

_NICENESS = 10  # the kernels of a search come first
_RETRY_SECONDS = 5.0


class FileChecks:
    """Compares the files of large segments with their checksums, in later generations too.

    Attributes:
        damage: the first error; the thread ends with it.
    """

    def __init__(
        self,
        snapshot: Callable[[], Snapshot],
        check_counts: Callable[[], None],
        on_end: Callable[[int, float], None] = lambda size, seconds: None,
    ) -> None:
        """Compare the files of each `snapshot`; `on_end` gets the bytes and seconds of a round."""
        self.damage: DamagedIndexError | None = None
        self._snapshot = snapshot
        self._check_counts = check_counts
        self._on_end = on_end
        self._compared: set[str] = set()
        self._wake = threading.Event()
        self._closing = self._has_counted = False
        # A daemon, so that the process can exit while a large index is still read.
        self._thread = threading.Thread(target=self._run, name="checksums", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._wake.set()
        self._thread.start()

    def notify(self) -> None:
        """Let the thread compare new segments."""
        self._wake.set()

    def close(self) -> None:
        """Stop before the next file."""
        self._closing = True
        self._wake.set()

    @property
    def bytes_left(self) -> int:
        """Bytes of the newest generation that are not compared yet."""
        return sum(live.segment.record.bytes for live in self._not_compared(self._snapshot()))

    def _not_compared(self, snapshot: Snapshot) -> list[LiveSegment]:
        records = ((live, live.segment.record) for live in snapshot.segments)
        return [
            live
            for live, record in records
            if record.bytes >= LARGE_BYTES and record.name not in self._compared
        ]

    def _run(self) -> None:
        lower_priority(_NICENESS)
        wait: float | None = None
        while self.damage is None:
            self._wake.wait(wait)
            self._wake.clear()
            if self._closing:
                return
            try:
                self._compare(self._snapshot())
                wait = None
            except DamagedIndexError as error:
                self.damage = error
            except (HasseIndexError, OSError):  # such as the limit on open files
                wait = _RETRY_SECONDS

    def _compare(self, snapshot: Snapshot) -> None:
        """Compare the new segments of a snapshot; its lease keeps the files on the disk."""
        began, size = time.monotonic(), 0
        for live in self._not_compared(snapshot):
            for name, file in live.segment.record.files.items():
                if self._closing:
                    return
                _compare_file(live.segment.folder / name, file)
            self._compared.add(live.segment.record.name)
            size += live.segment.record.bytes
        if not self._has_counted:
            self._check_counts()
            self._has_counted = True
        if size:
            self._on_end(size, time.monotonic() - began)


def _compare_file(path: Path, record: FileRecord) -> None:
    try:
        check_file(path, record, "checksums")
    except OSError as error:
        raise_system_error(error)
        raise DamagedIndexError(f"{path} cannot be read ({error.strerror})") from error
