"""A thread that compares what opening left out, behind searches: `Verify` "later"."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

from hasse.index.catalog.records import FileRecord
from hasse.index.errors import DamagedIndexError, HasseIndexError
from hasse.index.kernels.threads import step_back
from hasse.index.segments.segment import LARGE_BYTES, check_file
from hasse.index.segments.snapshot import LiveSegment, Snapshot
from hasse.models.regular_file import raise_system_error

_NICENESS = 10  # the kernels of a search come first
_RETRY_SECONDS = 5.0


class FileChecks:
    """Compares the files of large segments with their checksums, those of later generations too.

    Attributes:
        damage: what was found to be wrong; nothing is compared after it.
    """

    def __init__(
        self,
        snapshot: Callable[[], Snapshot],
        check_counts: Callable[[], None],
        on_end: Callable[[int, float], None] = lambda size, seconds: None,
    ) -> None:
        """Compare the files of each `snapshot`; `on_end` gets bytes and seconds when all are."""
        self.damage: DamagedIndexError | None = None
        self._snapshot = snapshot
        self._check_counts = check_counts
        self._on_end = on_end
        self._compared: set[str] = set()
        self._wanted = threading.Event()
        self._closing = self._has_counted = False
        # At exit nothing waits for the minutes that reading a large index takes.
        self._thread = threading.Thread(target=self._run, name="checksums", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._wanted.set()
        self._thread.start()

    def look(self) -> None:
        """Look for segments that are new."""
        self._wanted.set()

    def close(self) -> None:
        """Stop before the next file."""
        self._closing = True
        self._wanted.set()

    @property
    def left(self) -> int:
        """Bytes of the newest generation that are not compared yet."""
        return sum(live.segment.record.bytes for live in self._left(self._snapshot()))

    def _left(self, snapshot: Snapshot) -> list[LiveSegment]:
        records = ((live, live.segment.record) for live in snapshot.segments)
        return [
            live
            for live, record in records
            if record.bytes >= LARGE_BYTES and record.name not in self._compared
        ]

    def _run(self) -> None:
        step_back(_NICENESS)
        wait: float | None = None
        while self.damage is None:
            self._wanted.wait(wait)
            self._wanted.clear()
            if self._closing:
                return
            try:
                self._compare(self._snapshot())
                wait = None
            except DamagedIndexError as error:
                self.damage = error
            except (HasseIndexError, OSError):  # no more open files, or no catalog, for now
                wait = _RETRY_SECONDS

    def _compare(self, snapshot: Snapshot) -> None:
        """Compare what is new in a snapshot, whose lease keeps the files meanwhile."""
        began, size = time.monotonic(), 0
        for live in self._left(snapshot):
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
