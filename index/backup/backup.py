"""Backs up an index while it is searched and written.

Segments and stored pictures never change, so nearly all are copied without a lock. Then, under the
writer's lock, new files are copied and a read transaction of the catalog begins. The catalog is
copied from that transaction after the lock is released. So a backup holds one generation, with all
writes that were acknowledged before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from hasse.index import durable
from hasse.index.backup.contents import Progress
from hasse.index.backup.manifest import Manifest
from hasse.index.backup.stores import Store, store_at
from hasse.index.catalog.catalog import Catalog
from hasse.index.catalog.records import FileRecord
from hasse.index.catalog.transfer import ReadTransaction
from hasse.index.creation import open_catalog
from hasse.index.errors import DamagedIndexError, ReadOnlyIndexError, disk_full_reported
from hasse.index.locking import locked
from hasse.index.segments import stored_pictures
from hasse.index.segments.leases import take_lease
from hasse.index.segments.segment import SEGMENTS_FOLDER
from hasse.index.segments.staging import refuse_unfinished
from hasse.index.segments.writer import LOCK
from hasse.models.regular_file import open_regular

_LOCK_SECONDS = 60.0  # longest wait for other writers


@dataclass(frozen=True, slots=True)
class Backup:
    """A backup, the number of copied files, and the stored pictures that were missing."""

    manifest: Manifest
    copied: int
    missing: tuple[str, ...]


def back_up(folder: Path, place: Path, progress: Progress = lambda done, total: None) -> Backup:
    """Write a backup of an index to a folder, or to a file that ends in `.tar`.

    Only files that the folder lacks are copied. At the end all files are read again, also earlier
    ones; `progress` is called with the bytes of this check so far, and all of them.

    Raises:
        MissingIndexError, NotAnIndexError, UnfinishedIndexError: there is no index.
        BackupError: the place holds something else, or a file of the backup differs.
        DamagedIndexError: a segment is missing.
        IndexLockedError, DiskFullError: run it again later.
    """
    with closing(open_catalog(folder)) as catalog, disk_full_reported(place.parent):
        refuse_unfinished(folder, catalog.generation())
        copies = _Copies(folder, store_at(place))
        # Segments of this generation and of later ones stay until the lease is released.
        lease = take_lease(folder, catalog, catalog.generation())
        try:
            copied = _files_of(folder, catalog)
            for name in copies.add_files(copied):
                del copied[name]
            with ExitStack() as stack:
                with _no_writes(folder, catalog):
                    moment = datetime.now(UTC).isoformat(timespec="milliseconds")
                    transaction = stack.enter_context(ReadTransaction.begin(catalog))
                    files, counts = _files_of(folder, catalog, copied), catalog.counts()
                    rest = {name: files[name] for name in files.keys() - copied.keys()}
                    missing = copies.add_files(rest)
                with TemporaryDirectory(dir=place.parent, prefix=f".{place.name}-") as beside:
                    name, record = copies.add_catalog(transaction.copy(Path(beside)))
            missing_segment_files = [
                file for file in missing if not file.startswith(stored_pictures.PICTURES)
            ]
            if missing_segment_files:
                raise DamagedIndexError(f"{folder / missing_segment_files[0]} is missing")
            files = {file: files[file] for file in sorted(files.keys() - missing)}
            manifest = Manifest(
                transaction.generation,
                moment,
                counts["image"],
                counts["caption"],
                name,
                {name: record, **files},
            )
            copies.store.finish(manifest, progress)
        finally:
            lease.release()
    return Backup(manifest, copies.count, tuple(sorted(missing)))


class _Copies:
    """Copies files of an index that a backup lacks."""

    def __init__(self, folder: Path, store: Store) -> None:
        self._folder, self.store = folder, store
        self.count = 0

    def add_files(self, files: Mapping[str, FileRecord]) -> set[str]:
        """Copy files, by their paths in the index; return the paths of those that are missing."""
        missing = set()
        for name, record in files.items():
            if not self.store.holds(name, record.bytes):
                try:
                    with open_regular(self._folder / name) as file:
                        self.store.write(name, file, record.bytes)
                except FileNotFoundError:
                    missing.add(name)
                else:
                    self.count += 1
        return missing

    def add_catalog(self, path: Path) -> tuple[str, FileRecord]:
        """Copy the catalog; return its name, which contains its hash, and its record."""
        record = FileRecord(path.stat().st_size, durable.sha256(path))
        name = f"catalog-{record.sha256[:16]}.db"
        if not self.store.holds(name, record.bytes):
            with path.open("rb") as file:
                self.store.write(name, file, record.bytes)
            self.count += 1
        return name, record


def _files_of(
    folder: Path, catalog: Catalog, copied: Mapping[str, FileRecord] = {}
) -> dict[str, FileRecord]:
    """Return the files of all segments and stored pictures, by their paths in the index.

    Pictures in `copied` are not read again: they never change.
    """
    files = {
        f"{SEGMENTS_FOLDER}/{segment.name}/{name}": record
        for segment in catalog.state().segments
        for name, record in segment.files.items()
    }
    for image in stored_pictures.stored_images(catalog):
        if image.path in copied:
            files[image.path] = copied[image.path]
            continue
        size = 0
        with suppress(FileNotFoundError):  # missing, or removed meanwhile
            size = (folder / image.path).stat().st_size
        files[image.path] = FileRecord(size, image.sha256)
    return files


@contextmanager
def _no_writes(folder: Path, catalog: Catalog) -> Iterator[None]:
    """Hold the writer's lock; a read-only folder needs none."""
    with ExitStack() as stack:
        with suppress(ReadOnlyIndexError):
            stack.enter_context(locked(folder, catalog, LOCK, _LOCK_SECONDS))
        yield
