"""Scans folders that an index follows: their files, with the captions beside them.

A scan reads no picture. `read_digests` reads the pictures whose bytes are unknown.
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
    captions_of_table,
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
_MAX_BYTES = 4 << 30  # of a picture: a sparse file would be read for hours


@dataclass(frozen=True, slots=True)
class FileStamp:
    """The size and the times (nanoseconds) of a file, which differ when it has changed."""

    size: int
    modified: int
    changed: int

    def settled(self, now: float) -> bool:
        """Return whether every later change of the file changes its times too."""
        return max(self.modified, self.changed) / 1e9 < now - _TICK_SECONDS


@dataclass(frozen=True, slots=True)
class SeenFile:
    """A file that may be a picture.

    Attributes:
        path: absolute, without links in its folder.
        folder: the followed folder that it is in, or None for a file that was named itself.
        name: the path relative to that folder.
        stamp: None where the file cannot be read or is still being written.
        captions: by source, as in `PathRow`, without sources that could not be read.
        sidecars: the state of its XMP files, as in `Metadata`.
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
    """What a scan takes from folders.

    Attributes:
        captions: a table of captions for the pictures of the one folder that is named.
        exclude: patterns of files to leave out, in addition to those that the index remembers. The
            same pattern with "!" before it makes the index forget it.
        follow_links: also take files that links out of the folder lead to.
    """

    captions: Path | None = None
    exclude: Sequence[str] = ()
    follow_links: bool = False


DEFAULT_OPTIONS = ScanOptions()


@dataclass(slots=True)
class Scan:
    """The files of the named folders.

    Attributes:
        files: the files that may be pictures, by path.
        named_folders: the folders that were named, each with its device; None if it is missing.
        mounts: folders within them on other devices.
        roots: the followed folders that contain the named ones, with their rows for the catalog.
        unreadable_folders: folders that cannot be read, named ones and those below them.
        unsettled_files: files that are still being written; they have no stamp.
        skipped: files that were left out, with the reasons.
        seen_at: when the scan began.
    """

    files: dict[str, SeenFile] = field(default_factory=dict)
    named_folders: dict[Path, int | None] = field(default_factory=dict)
    mounts: dict[Path, int] = field(default_factory=dict)
    roots: dict[Path, FolderRow] = field(default_factory=dict)
    unreadable_folders: list[Path] = field(default_factory=list)
    unsettled_files: set[str] = field(default_factory=set)
    skipped: SkippedRows = field(default_factory=SkippedRows)
    seen_at: float = field(default_factory=time.time)

    def holds_pictures(self, folder: Path) -> bool:
        """Return whether a folder has any picture."""
        return any(path.startswith(f"{folder}/") for path in self.files)


def scan(
    paths: Sequence[Path],
    options: ScanOptions = DEFAULT_OPTIONS,
    *,
    locations: Locations | None = None,
    index_folder: Path | None = None,
    is_still: Callable[[str, FileStamp], bool] = lambda path, stamp: True,
) -> Scan:
    """Scan folders and single pictures, with their captions.

    Captions are the lines of `dog.txt` beside `dog.jpg`, and the rows of a table. A folder within
    one that `locations` knows is scanned as a part of it. Files below `index_folder` are left out.
    A file that is not still gets no stamp.

    Raises:
        DatasetError: the table or a pattern cannot be read.
    """
    result = Scan()
    for path in paths:
        if path.is_dir() or not (path.exists() or path.suffix.lower() in PICTURE_SUFFIXES):
            folder = Path(os.path.realpath(path))  # Path.resolve fails on links in a circle
            _scan_folder(result, folder, options, locations, index_folder)
        else:
            picture = path.parent.resolve() / path.name
            _add_files(result, None, picture.parent, [picture.name], ScanOptions(follow_links=True))
    for path_, file in result.files.items():
        if file.stamp is not None and not is_still(path_, file.stamp):
            result.unsettled_files.add(path_)
            result.files[path_] = replace(file, stamp=None)
    return result


def _scan_folder(
    scan: Scan,
    folder: Path,
    options: ScanOptions,
    locations: Locations | None,
    index_folder: Path | None,
) -> None:
    scan.named_folders[folder] = None
    try:
        scan.named_folders[folder] = folder.stat().st_dev
    except OSError as error:
        scan.skipped.add(str(folder), "folder that cannot be read", detail=error.strerror or "")
        scan.unreadable_folders.append(folder)
        return
    root, row = _root_of(folder, options, locations)
    scan.roots[root] = row
    if folder != root and locations is not None:  # it stays when the folder around it is removed
        scan.roots.setdefault(folder, locations.folder_row(folder, scan.named_folders[folder]))
    within = "" if folder == root else folder.relative_to(root).as_posix()
    if within and is_excluded(root, within, row.exclude):
        scan.skipped.add(str(folder), f"folder that {root} leaves out by --exclude")
        return
    exclude = [*row.exclude, *_excludes_within(root, locations)]
    walk = pictures_of(
        root, exclude, options.captions, scan.skipped, within=within, follow_links=row.follow_links
    )
    scan.unreadable_folders += [root / name for name in walk.unread]
    scan.mounts |= {root / name: device for name, device in walk.mounts.items()}
    names = walk.pictures
    if index_folder is not None and index_folder.is_relative_to(root):
        prefix = f"{index_folder.relative_to(root).as_posix()}/"
        names = [name for name in names if not name.startswith(prefix)]
    _add_files(scan, root, root, names, replace(options, follow_links=row.follow_links))


def _root_of(
    folder: Path, options: ScanOptions, locations: Locations | None
) -> tuple[Path, FolderRow]:
    """Return the followed folder that contains a named one, and its row for the catalog."""
    row = None
    if locations is not None:
        row = locations.root_of(str(folder)) or locations.moved_root(folder)
        row = row or locations.folder_row(folder, None)
    row = row or FolderRow(str(folder), str(folder), "")
    root = Path(row.path)
    with suppress(OSError):
        row = row._replace(device=root.stat().st_dev)
    opposites = {
        pattern[1:] if pattern.startswith("!") else f"!{pattern}" for pattern in options.exclude
    }
    remembered = [pattern for pattern in row.exclude if pattern not in opposites]
    exclude = tuple(dict.fromkeys([*remembered, *options.exclude]))
    return root, row._replace(
        exclude=exclude, follow_links=row.follow_links or options.follow_links
    )


def _excludes_within(root: Path, locations: Locations | None) -> Iterator[str]:
    """Yield the patterns of followed folders within `root`, rewritten as patterns of `root`."""
    for row in () if locations is None else locations.folders.values():
        if not Path(row.path).is_relative_to(root) or Path(row.path) == root:
            continue
        folder = Path(row.path).relative_to(root).as_posix()
        for pattern in row.exclude:
            sign, rest = ("!", pattern[1:]) if pattern.startswith("!") else ("", pattern)
            anywhere = "" if "/" in rest.rstrip("/") else "**/"
            yield f"{sign}/{folder}/{anywhere}{rest.lstrip('/')}"


def _add_files(
    scan: Scan, folder: Path | None, root: Path, names: list[str], options: ScanOptions
) -> None:
    # A folder may be named together with one within it.
    names = [name for name in names if f"{root}/{name}" not in scan.files]
    skipped, table = scan.skipped, options.captions
    beside = captions_beside(root, names, skipped, follow_links=options.follow_links)
    of_table = FolderCaptions() if table is None else captions_of_table(table, root, names, skipped)
    xmp_files: dict[str, list[str]] = {}
    for name in names:
        path = f"{root}/{name}"
        if not source.is_text(path):
            skipped.add(ascii(name), "file name with broken characters")
            continue
        captions = {} if name in beside.unread else {"": beside.texts.get(name, [])}
        if table is not None:
            captions[str(table.resolve())] = of_table.texts.get(name, [])
        split = of_table.splits.get(name, "")
        stamp = _read_stamp(path, name, skipped)
        sidecars = _sidecar_state(Path(path), xmp_files)
        scan.files[path] = SeenFile(path, folder, name, stamp, captions, split, sidecars)


def _sidecar_state(picture: Path, xmp_files: dict[str, list[str]]) -> str:
    """Return the state of a picture's sidecars; `xmp_files` caches the XMP files of each folder."""
    folder = str(picture.parent)
    try:
        if folder not in xmp_files:
            names = (path.name for path in picture.parent.iterdir())
            xmp_files[folder] = [name for name in names if name.lower().endswith(SUFFIX)]
        return stamp_of(sidecars_of(picture, xmp_files[folder]))
    except OSError:  # the folder or a sidecar was deleted meanwhile
        return ""


def _read_stamp(path: str, name: str, skipped: SkippedRows) -> FileStamp | None:
    """Return the stamp of a file, or None for one that `skipped` gets with the reason."""
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
    elif facts.st_size > _MAX_BYTES:
        skipped.add(name, "too large a file", detail=f"more than {_MAX_BYTES:,} bytes")
    else:
        return FileStamp(facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)
    return None


def read_digests(files: Iterable[SeenFile], skipped: SkippedRows) -> dict[str, str]:
    """Return the SHA-256 of files, by path; `skipped` gets those that cannot be read.

    Raises:
        OSError: the system is out of open files or memory, or cannot reach the disk.
    """
    files = list(files)
    digests: dict[str, str] = {}
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="hasse-read") as pool:
        for file, digest in zip(files, pool.map(_digest, files), strict=True):
            if isinstance(digest, str):
                digests[file.path] = digest
            elif isinstance(digest, FileNotFoundError):
                skipped.add(file.name, "file not found")
            else:
                skipped.add(file.name, "file that cannot be read", detail=digest.strerror or "")
    return digests


def _digest(file: SeenFile) -> str | OSError:
    try:
        return durable.sha256(Path(file.path))
    except OSError as error:
        raise_system_error(error)
        return error
