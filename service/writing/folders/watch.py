"""Keep an index in step with its folders while they change."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event

import watchfiles

from hasse.index.errors import HasseIndexError, ModelMismatchError
from hasse.index.store import Index
from hasse.models.errors import HasseError
from hasse.service.writing.folders.encoders import Encoders
from hasse.service.writing.folders.plan import Counts
from hasse.service.writing.folders.scan import FileStamp, scan
from hasse.service.writing.folders.sync import FolderSync

STILL_SECONDS = 1.0  # for which a file must not have changed before it is read
_RESCAN_SECONDS = 60.0  # in case the system lost an event
_RETRY_SECONDS = 5.0
_WAIT_MILLISECONDS = 100
_BURST_MILLISECONDS = 500
_BURST_SECONDS = 5.0  # after which changes are looked at though others follow
_POLL_MILLISECONDS = 1_000

# File systems that tell nobody what other machines change.
_NETWORK = ("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre")
_MOUNTS = Path("/proc/self/mounts")


class FolderWatch:
    """Follows the folders of an index until it is told to stop.

    A burst of changes is taken together. Folders may be missing at times, and may be added and
    removed meanwhile.

    Args:
        index: what is changed.
        encoders: what encodes new pictures and captions.
        on_change: told what a pass has changed.
        say: told a sentence on what went wrong, once.
    """

    def __init__(
        self,
        index: Index,
        encoders: Encoders,
        *,
        on_change: Callable[[Counts, int], None] = lambda counts, generation: None,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._index = index
        self._folders: list[Path] = []
        self._encoders = encoders
        self._on_change = on_change
        self._say = say
        self._said: set[str] = set()
        self._first_seen: dict[tuple[str, FileStamp], float] = {}
        self._next_look = 0.0  # by the monotonic clock
        self._changed_at: float | None = None  # the first change since the last look

    def run(self, stop: Event) -> None:
        """Follow until `stop` is set.

        Raises:
            ModelMismatchError: the index was encoded anew by another model.
        """
        while not stop.is_set():
            self._look()
            there = self._there()
            if not there:
                stop.wait(STILL_SECONDS)
                continue
            for changes in watchfiles.watch(
                *there,
                watch_filter=self._matters,
                debounce=_BURST_MILLISECONDS,
                step=50,
                stop_event=stop,
                rust_timeout=_WAIT_MILLISECONDS,
                yield_on_timeout=True,
                force_polling=any(map(is_on_network, there)) or None,
                poll_delay_ms=_POLL_MILLISECONDS,
                ignore_permission_denied=True,
            ):
                if changes:
                    self._note_change()
                if time.monotonic() >= self._next_look:
                    self._look()
                if self._there() != there:
                    self._next_look = 0.0
                    break

    def _there(self) -> dict[Path, tuple[int, int]]:
        """Return the folders that are there, each with its device and inode."""
        found = {}
        for folder in self._folders:
            with suppress(OSError):
                if folder.is_dir():
                    facts = folder.stat()
                    found[folder] = (facts.st_dev, facts.st_ino)
        return found

    def _note_change(self) -> None:
        """Look once what has changed may be at rest."""
        now = time.monotonic()
        self._changed_at = now if self._changed_at is None else self._changed_at
        self._next_look = min(now + STILL_SECONDS, self._changed_at + _BURST_SECONDS)

    def _look(self) -> None:
        """Bring the index in step once, and note when to look again at the latest."""
        wait, self._changed_at = _RESCAN_SECONDS, None
        try:
            unsettled = self._sync()
            if unsettled:
                wait = STILL_SECONDS / 2
        except ModelMismatchError:
            raise
        except (HasseError, OSError) as error:
            self._tell([f"{error}; it is tried again"])
            wait = _RETRY_SECONDS
        self._next_look = time.monotonic() + wait

    def _sync(self) -> bool:
        """Make one pass; tell whether files are still being written."""
        locations = self._index.catalog.locations(self._index.folder, find_missing=True)
        self._folders = locations.followed
        seen = scan(
            self._folders,
            locations=locations,
            without=self._index.folder,
            is_still=self.is_still,
        )
        # A file that was moved is gone in one place before it is at rest in the other.
        remove = not seen.unsettled
        sync = FolderSync(self._index, seen, remove=remove)
        before = self._index.catalog.generation()
        counts = sync.apply(self._encoders)
        self._tell([*sync.scan.skipped.lines, *sync.plan.reasons.values()])
        if self._index.generation != before:
            self._on_change(counts, self._index.generation)
            with suppress(HasseIndexError):  # another process may be merging
                self._index.compact()
        if not seen.unsettled:
            self._first_seen.clear()
        return bool(seen.unsettled)

    def is_still(self, path: str, stamp: FileStamp) -> bool:
        """Tell whether a file has not changed for a second, by its times or as seen here.

        The clock of a file server may differ from that of this machine.
        """
        newest = max(stamp.modified, stamp.changed) / 1e9
        if abs(time.time() - newest) >= STILL_SECONDS and (path, stamp) not in self._first_seen:
            return True
        now = time.monotonic()
        return now - self._first_seen.setdefault((path, stamp), now) >= STILL_SECONDS

    def _matters(self, _change: watchfiles.Change, path: str) -> bool:
        return not Path(path).is_relative_to(self._index.folder)

    def _tell(self, lines: Sequence[str]) -> None:
        for line in lines:
            if line not in self._said:
                self._said.add(line)
                self._say(line)


def is_on_network(folder: Path, mounts: Path = _MOUNTS) -> bool:
    """Tell whether a folder is on a file system of another machine."""
    try:
        lines = mounts.read_text(errors="surrogateescape").splitlines()
    except OSError:  # not Linux
        return False
    found = ""
    kind = ""
    for line in lines:
        _, place, type_, *_ = line.split(" ")
        place = place.encode(errors="surrogateescape").decode("unicode_escape")
        if folder.is_relative_to(place) and len(place) >= len(found):
            found, kind = place, type_
    return kind in _NETWORK or kind.startswith("fuse.")
