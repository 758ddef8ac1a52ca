"""Watches the folders that an index follows, and syncs the index when they change."""

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
_BURST_SECONDS = 5.0  # after which an unfinished burst of changes is synced
_POLL_MILLISECONDS = 1_000

# File systems that send no events when other machines change files.
_NETWORK = ("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre")
_MOUNTS = Path("/proc/self/mounts")


class FolderWatch:
    """Syncs an index with its folders until it is stopped.

    A burst of changes is synced together. Folders may be missing for a time, and may be added and
    removed meanwhile.

    Args:
        index: the index to change.
        encoders: encode new pictures and captions.
        on_change: receives the counts and the generation of a sync that changed the index.
        warn: receives one sentence for each problem, once.
    """

    def __init__(
        self,
        index: Index,
        encoders: Encoders,
        *,
        on_change: Callable[[Counts, int], None] = lambda counts, generation: None,
        warn: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._index = index
        self._folders: list[Path] = []
        self._encoders = encoders
        self._on_change = on_change
        self._warn = warn
        self._warned: set[str] = set()
        self._first_seen: dict[tuple[str, FileStamp], float] = {}
        self._next_sync = 0.0  # by the monotonic clock
        self._changed_at: float | None = None  # the first change since the last sync

    def run(self, stop: Event) -> None:
        """Watch until `stop` is set.

        Raises:
            ModelMismatchError: the index was re-encoded with another model.
        """
        while not stop.is_set():
            self._sync_and_schedule()
            existing = self._existing_folders()
            if not existing:
                stop.wait(STILL_SECONDS)
                continue
            for changes in watchfiles.watch(
                *existing,
                watch_filter=self._is_outside_index,
                debounce=_BURST_MILLISECONDS,
                step=50,
                stop_event=stop,
                rust_timeout=_WAIT_MILLISECONDS,
                yield_on_timeout=True,
                force_polling=any(map(is_on_network, existing)) or None,
                poll_delay_ms=_POLL_MILLISECONDS,
                ignore_permission_denied=True,
            ):
                if changes:
                    self._note_change()
                if time.monotonic() >= self._next_sync:
                    self._sync_and_schedule()
                if self._existing_folders() != existing:
                    self._next_sync = 0.0
                    break

    def _existing_folders(self) -> dict[Path, tuple[int, int]]:
        """Return the folders that exist, each with its device and inode."""
        existing = {}
        for folder in self._folders:
            with suppress(OSError):
                if folder.is_dir():
                    facts = folder.stat()
                    existing[folder] = (facts.st_dev, facts.st_ino)
        return existing

    def _note_change(self) -> None:
        """Schedule a sync for when the changed files may be still."""
        now = time.monotonic()
        self._changed_at = now if self._changed_at is None else self._changed_at
        self._next_sync = min(now + STILL_SECONDS, self._changed_at + _BURST_SECONDS)

    def _sync_and_schedule(self) -> None:
        """Sync once, and schedule the next sync."""
        wait, self._changed_at = _RESCAN_SECONDS, None
        try:
            unsettled = self._sync()
            if unsettled:
                wait = STILL_SECONDS / 2
        except ModelMismatchError:
            raise
        except (HasseError, OSError) as error:
            self._warn_once([f"{error}; it is tried again"])
            wait = _RETRY_SECONDS
        self._next_sync = time.monotonic() + wait

    def _sync(self) -> bool:
        """Sync once; return whether files are still being written."""
        locations = self._index.catalog.locations(self._index.folder, find_missing=True)
        self._folders = locations.followed_folders
        scan_result = scan(
            self._folders,
            locations=locations,
            index_folder=self._index.folder,
            is_still=self.is_still,
        )
        # A file that is moved disappears from the old path before it is still at the new one.
        remove = not scan_result.unsettled_files
        sync = FolderSync(self._index, scan_result, remove=remove)
        generation_before = self._index.catalog.generation()
        counts = sync.apply(self._encoders)
        self._warn_once([*sync.scan.skipped.lines, *sync.plan.unreachable.values()])
        if self._index.generation != generation_before:
            self._on_change(counts, self._index.generation)
            with suppress(HasseIndexError):  # another process may be merging
                self._index.compact()
        if not scan_result.unsettled_files:
            self._first_seen.clear()
        return bool(scan_result.unsettled_files)

    def is_still(self, path: str, stamp: FileStamp) -> bool:
        """Return whether a file has not changed for a second.

        Its times decide, or where they are recent, how long this watch has seen the same times: the
        clock of a file server may differ from that of this machine.
        """
        newest = max(stamp.modified, stamp.changed) / 1e9
        if abs(time.time() - newest) >= STILL_SECONDS and (path, stamp) not in self._first_seen:
            return True
        now = time.monotonic()
        return now - self._first_seen.setdefault((path, stamp), now) >= STILL_SECONDS

    def _is_outside_index(self, _change: watchfiles.Change, path: str) -> bool:
        return not Path(path).is_relative_to(self._index.folder)

    def _warn_once(self, lines: Sequence[str]) -> None:
        for line in lines:
            if line not in self._warned:
                self._warned.add(line)
                self._warn(line)


def is_on_network(folder: Path, mounts: Path = _MOUNTS) -> bool:
    """Return whether a folder is on a file system of another machine."""
    try:
        lines = mounts.read_text(errors="surrogateescape").splitlines()
    except OSError:  # not Linux
        return False
    mount = ""
    kind = ""
    for line in lines:
        _, point, type_, *_ = line.split(" ")
        point = point.encode(errors="surrogateescape").decode("unicode_escape")
        if folder.is_relative_to(point) and len(point) >= len(mount):
            mount, kind = point, type_
    return kind in _NETWORK or kind.startswith("fuse.")
