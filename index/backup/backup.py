"""Back up an index while it is searched and written.

Segments and stored pictures never change, so nearly all are copied without a lock. Then, while no
other process writes, the rest is copied and the instant of the catalog is fixed, which is copied
after that. So a backup is of one generation, and has every write that was acknowledged before.
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
from hasse.index.catalog.transfer import Instant
from hasse.index.creation import open_catalog
from hasse.index.errors import DamagedIndexError, ReadOnlyIndexError, disk_full_reported
from hasse.index.locking import locked
from hasse.index.segments import stored_pictures
from hasse.index.segments.leases import lease
from hasse.index.segments.segment import SEGMENTS_FOLDER
from hasse.index.segments.staging import refuse_unfinished
from hasse.index.segments.writer import LOCK
from hasse.models.regular_file import open_regular

_LOCK_SECONDS = 60.0  # for which other writers are waited for


@dataclass(frozen=True, slots=True)
class Backup:
    """A backup, how many files were copied for it, and the stored pictures that are missing."""

    manifest: Manifest
    copied: int
    missing: tuple[str, ...]


def back_up(folder: Path, place: Path, progress: Progress = lambda done, total: None) -> Backup:
    """Write a backup of an index to a folder, or to a file that ends in `.tar`.

    A folder takes what it lacks. Everything is read again at the end, also what was there;
    `progress` is called with the bytes read then, and all of them.

    Raises:
        MissingIndexError, NotAnIndexError, UnfinishedIndexError: there is no index.
        BackupError: the place holds something else, or what was written reads otherwise.
        DamagedIndexError: a segment is missing.
        IndexLockedError, DiskFullError: run it again later.
    """
    with closing(open_catalog(folder)) as catalog, disk_full_reported(place.parent):
        refuse_unfinished(folder, catalog.generation())
        copies = _Copies(folder, store_at(place))
        # Segments of this generation and of later ones stay until it is released.
        held = lease(folder, catalog, catalog.generation())
        try:
            copied = _files_of(folder, catalog)
            for name in copies.take(copied):
                del copied[name]
            with ExitStack() as stack:
                with _no_writes(folder, catalog):
                    moment = datetime.now(UTC).isoformat(timespec="milliseconds")
                    instant = stack.enter_context(Instant.of(catalog))
                    files, counts = _files_of(folder, catalog, copied), catalog.counts()
                    rest = {name: files[name] for name in files.keys() - copied.keys()}
                    missing = copies.take(rest)
                with TemporaryDirectory(dir=place.parent, prefix=f".{place.name}-") as beside:
                    name, record = copies.add_catalog(instant.copy(Path(beside)))
            if lost := [file for file in missing if not file.startswith(stored_pictures.PICTURES)]:
                raise DamagedIndexError(f"{folder / lost[0]} is missing")
            files = {file: files[file] for file in sorted(files.keys() - missing)}
            manifest = Manifest(
                instant.generation,
                moment,
                counts["image"],
                counts["caption"],
                name,
                {name: record, **files},
            )
            copies.store.finish(manifest, progress)
        finally:
            held.release()
    return Backup(manifest, copies.count, tuple(sorted(missing)))


class _Copies:
    """Files that are copied from an index to a backup, as far as they are not there."""

    def __init__(self, folder: Path, store: Store) -> None:
        self._folder, self.store = folder, store
        self.count = 0

    def take(self, files: Mapping[str, FileRecord]) -> set[str]:
        """Copy files of the index, by their paths in it; return those that are missing."""
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
        """Copy the catalog, under a name that no other one has."""
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

    Those that were `copied` are not looked at again: they never change.
    """
    files = {
        f"{SEGMENTS_FOLDER}/{segment.name}/{name}": record
        for segment in catalog.state().segments
        for name, record in segment.files.items()
    }
    for image in stored_pictures.stored(catalog):
        if image.path in copied:
            files[image.path] = copied[image.path]
            continue
        size = 0
        with suppress(FileNotFoundError):  # it was removed meanwhile, or is missing
            size = (folder / image.path).stat().st_size
        files[image.path] = FileRecord(size, image.sha256)
    return files


@contextmanager
def _no_writes(folder: Path, catalog: Catalog) -> Iterator[None]:
    """Let nobody write; where the folder cannot be written, nobody does."""
    with ExitStack() as stack:
        with suppress(ReadOnlyIndexError):
            stack.enter_context(locked(folder, catalog, LOCK, _LOCK_SECONDS))
        yield
