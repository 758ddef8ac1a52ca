"""Scan folders that an index follows: their files, with the captions that lie beside them.

No picture is read here; `read_digests` reads those whose bytes are not known.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from hasse.index import durable
from hasse.index.catalog.locations import Locations
from hasse.index.types import FolderRow
from hasse.models.datasets import source
from hasse.models.datasets.folder import (
    BROKEN_LINK,
    NO_FILE,
    FolderCaptions,
    captions_beside,
    captions_in,
    pictures_of,
)
from hasse.models.datasets.skipped_rows import SkippedRows
from hasse.models.datasets.walk import is_excluded
from hasse.models.images.formats import PICTURE_SUFFIXES
from hasse.models.images.sidecars import SUFFIX, sidecars_of, stamp_of
from hasse.models.regular_file import raise_system_error

_THREADS = 8
# A file may be written again within one tick of the clock of its file system.
_TICK_SECONDS = 2.0
_MOST_BYTES = 4 << 30  # of a picture: a sparse file would be read for hours


@dataclass(frozen=True, slots=True)
class FileStamp:
    """The size and the times (nanoseconds) of a file, which differ when it has changed."""

    size: int
    modified: int
    changed: int

    def settled(self, now: float) -> bool:
        """Tell whether a later change must show in the times."""
        return max(self.modified, self.changed) / 1e9 < now - _TICK_SECONDS


@dataclass(frozen=True, slots=True)
class SeenFile:
    """A file that may be a picture.

    Attributes:
        path: absolute, without links in its folder.
        folder: the followed folder that has it, or None for a file that was named itself.
        name: the path relative to that folder.
        stamp: None where the file cannot be looked at.
        captions: by source, as in `PathRow`; sources that were not read are not there.
        sidecars: which state of its XMP files was seen; see `Metadata`.
    """

    path: str
    folder: Path | None
    name: str
    stamp: FileStamp | None
    captions: dict[str, list[str]]
    split: str = ""
    sidecars: str = ""


@dataclass(frozen=True, slots=True)
class ScanOptions:
    """How folders are looked at.

    Attributes:
        captions: a table of captions for the pictures of the one folder that is named.
        exclude: patterns of what is left out, beside those that an index remembers; a remembered
            pattern is forgotten when it is given again with "!" before it.
        follow_links: take files that links out of the folder lead to.
    """

    captions: Path | None = None
    exclude: Sequence[str] = ()
    follow_links: bool = False


DEFAULT_OPTIONS = ScanOptions()


@dataclass(slots=True)
class Scan:
    """What the named folders hold.

    Attributes:
        files: by path.
        named: the folders that were named, each with its device; None where it is not there.
        mounts: folders within them on devices of their own.
        roots: the followed folders that the named ones are or lie in, as they are remembered.
        unknown: folders below the named ones that cannot be read.
        unsettled: files that are still being written, and have no stamp.
    """

    files: dict[str, SeenFile] = field(default_factory=dict)
    named: dict[Path, int | None] = field(default_factory=dict)
    mounts: dict[Path, int] = field(default_factory=dict)
    roots: dict[Path, FolderRow] = field(default_factory=dict)
    unknown: list[Path] = field(default_factory=list)
    unsettled: set[str] = field(default_factory=set)
    skipped: SkippedRows = field(default_factory=SkippedRows)
    seen_at: float = field(default_factory=time.time)

    def holds_pictures(self, folder: Path) -> bool:
        """Tell whether a folder has any picture."""
        return any(path.startswith(f"{folder}/") for path in self.files)


def scan(
    paths: Sequence[Path],
    options: ScanOptions = DEFAULT_OPTIONS,
    *,
    locations: Locations | None = None,
    without: Path | None = None,
    is_still: Callable[[str, FileStamp], bool] = lambda path, stamp: True,
) -> Scan:
    """Look at folders, and at single pictures, each with what is said of them.

    Captions are the lines of `dog.txt` beside `dog.jpg`, and the rows of a table. Folders within
    one that `locations` knows are parts of it. Nothing below `without`, the folder of the index, is
    taken. Files that are not still are left for later.

    Raises:
        DatasetError: the table or a pattern cannot be read.
    """
    found = Scan()
    for path in paths:
        if path.is_dir() or not (path.exists() or path.suffix.lower() in PICTURE_SUFFIXES):
            folder = Path(os.path.realpath(path))  # Path.resolve fails on links in a circle
            _scan_folder(found, folder, options, locations, without)
        else:
            place = path.parent.resolve() / path.name
            _take(found, None, place.parent, [place.name], ScanOptions(follow_links=True))
    for path_, file in found.files.items():
        if file.stamp is not None and not is_still(path_, file.stamp):
            found.unsettled.add(path_)
            found.files[path_] = replace(file, stamp=None)
    return found


def _scan_folder(
    found: Scan,
    folder: Path,
    options: ScanOptions,
    locations: Locations | None,
    without: Path | None,
) -> None:
    found.named[folder] = None
    try:
        found.named[folder] = folder.stat().st_dev
    except OSError as error:
        found.skipped.add(str(folder), "folder that cannot be read", detail=error.strerror or "")
        found.unknown.append(folder)
        return
    root, row = _root_of(folder, options, locations)
    found.roots[root] = row
    own = "" if folder == root else folder.relative_to(root).as_posix()
    if own and is_excluded(root, own, row.exclude):
        found.skipped.add(str(folder), f"folder that {root} leaves out by --exclude")
        return
    exclude = [*row.exclude, *_excludes_within(root, locations)]
    walked = pictures_of(
        root,
        exclude,
        options.captions,
        found.skipped,
        within=own,
        follow_links=row.follow_links,
    )
    found.unknown += [root / place for place in walked.unread]
    found.mounts |= {root / place: device for place, device in walked.mounts.items()}
    names = walked.pictures
    if without is not None and without.is_relative_to(root):
        index = f"{without.relative_to(root).as_posix()}/"
        names = [name for name in names if not name.startswith(index)]
    _take(found, root, root, names, replace(options, follow_links=row.follow_links))


def _root_of(
    folder: Path, options: ScanOptions, locations: Locations | None
) -> tuple[Path, FolderRow]:
    """Return the followed folder that a named one belongs to, with what is remembered of it."""
    row = None
    if locations is not None:
        row = locations.root_of(str(folder)) or locations.moved_root(folder)
        row = row or locations.folder(folder, None)
    row = row or FolderRow(str(folder), str(folder), "")
    root = Path(row.path)
    with suppress(OSError):
        row = row._replace(device=root.stat().st_dev)
    undone = {
        pattern[1:] if pattern.startswith("!") else f"!{pattern}" for pattern in options.exclude
    }
    kept = [pattern for pattern in row.exclude if pattern not in undone]
    exclude = tuple(dict.fromkeys([*kept, *options.exclude]))
    return root, row._replace(
        exclude=exclude, follow_links=row.follow_links or options.follow_links
    )


def _excludes_within(root: Path, locations: Locations | None) -> Iterator[str]:
    """Yield what folders within a followed one leave out, as patterns of that one."""
    for row in () if locations is None else locations.folders.values():
        if not Path(row.path).is_relative_to(root) or Path(row.path) == root:
            continue
        place = Path(row.path).relative_to(root).as_posix()
        for pattern in row.exclude:
            sign, rest = ("!", pattern[1:]) if pattern.startswith("!") else ("", pattern)
            anywhere = "" if "/" in rest.rstrip("/") else "**/"
            yield f"{sign}/{place}/{anywhere}{rest.lstrip('/')}"


def _take(
    found: Scan, folder: Path | None, root: Path, names: list[str], options: ScanOptions
) -> None:
    # A folder may be named, and one within it.
    names = [name for name in names if f"{root}/{name}" not in found.files]
    skipped, table = found.skipped, options.captions
    beside = captions_beside(root, names, skipped, follow_links=options.follow_links)
    of_table = FolderCaptions() if table is None else captions_in(table, root, names, skipped)
    files: dict[str, list[str]] = {}
    for name in names:
        path = f"{root}/{name}"
        if not source.is_text(path):
            skipped.add(ascii(name), "file name with broken characters")
            continue
        said = {} if name in beside.unread else {"": beside.texts.get(name, [])}
        if table is not None:
            said[str(table.resolve())] = of_table.texts.get(name, [])
        split = of_table.splits.get(name, "")
        stamp = _stamp(path, name, skipped)
        sidecars = _sidecars(Path(path), files)
        found.files[path] = SeenFile(path, folder, name, stamp, said, split, sidecars)


def _sidecars(picture: Path, files: dict[str, list[str]]) -> str:
    """Return the state of a picture's sidecars; `files` keeps the XMP files of each folder."""
    folder = str(picture.parent)
    try:
        if folder not in files:
            names = (each.name for each in picture.parent.iterdir())
            files[folder] = [name for name in names if name.lower().endswith(SUFFIX)]
        return stamp_of(sidecars_of(picture, files[folder]))
    except OSError:  # it is gone again
        return ""


def _stamp(path: str, name: str, skipped: SkippedRows) -> FileStamp | None:
    """Return the stamp of a file that can be read, or note why it cannot."""
    try:
        facts = Path(path).stat()
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            skipped.add(name, BROKEN_LINK if Path(path).is_symlink() else "file not found")
        else:
            skipped.add(name, "file that cannot be read", detail=error.strerror or "")
        return None
    if not stat.S_ISREG(facts.st_mode):
        skipped.add(name, NO_FILE)
    elif facts.st_size > _MOST_BYTES:
        skipped.add(name, "too large a file", detail=f"more than {_MOST_BYTES:,} bytes")
    else:
        return FileStamp(facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)
    return None


def read_digests(files: Iterable[SeenFile], skipped: SkippedRows) -> dict[str, str]:
    """Return the SHA-256 of files, by path; one that cannot be read has none, and is noted.

    Raises:
        OSError: the system has no more open files or memory to give, or cannot reach the disk.
    """
    every = list(files)
    digests: dict[str, str] = {}
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="hasse-read") as pool:
        for file, found in zip(every, pool.map(_digest, every), strict=True):
            if isinstance(found, str):
                digests[file.path] = found
            elif isinstance(found, FileNotFoundError):
                skipped.add(file.name, "file not found")
            else:
                skipped.add(file.name, "file that cannot be read", detail=found.strerror or "")
    return digests


def _digest(file: SeenFile) -> str | OSError:
    try:
        return durable.sha256(Path(file.path))
    except OSError as error:
        raise_system_error(error)
        return error
