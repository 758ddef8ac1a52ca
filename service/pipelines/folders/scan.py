"""Look at folders that an index is kept in step with: which files there are, what is said of them.

No picture is read here; `read_digests` reads those whose bytes are not known.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from hasse.index import durable
from hasse.models.datasets import source
from hasse.models.datasets.folder import FolderCaptions, captions_beside, captions_in, pictures_of
from hasse.models.datasets.skipped_rows import SkippedRows
from hasse.models.regular_file import raise_system_error

_THREADS = 8
# A file may be written again within one tick of the clock of its file system.
_TICK_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class FileStamp:
    """By these a file is known not to have changed: its size, and its times in nanoseconds."""

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
        folder: the folder that was named and has it, or None for a file that was named itself.
        name: the path relative to that folder.
        stamp: None where the file cannot be looked at.
        captions: by source, as in `PathRow`; sources that were not read are not there.
    """

    path: str
    folder: Path | None
    name: str
    stamp: FileStamp | None
    captions: dict[str, list[str]]
    split: str = ""


@dataclass(slots=True)
class Scan:
    """What the named folders hold.

    Attributes:
        files: by path.
        folders: every named folder, with its device; None where it is not there.
        unknown: folders below them that cannot be read.
        unsettled: files that are still being written, and have no stamp.
    """

    files: dict[str, SeenFile] = field(default_factory=dict)
    folders: dict[Path, int | None] = field(default_factory=dict)
    unknown: list[Path] = field(default_factory=list)
    unsettled: set[str] = field(default_factory=set)
    skipped: SkippedRows = field(default_factory=SkippedRows)
    seen_at: float = field(default_factory=time.time)

    def holds_pictures(self, folder: Path) -> bool:
        """Tell whether a named folder has any picture."""
        return any(file.folder == folder for file in self.files.values())


def scan(
    paths: Sequence[Path],
    captions: Path | None = None,
    exclude: Sequence[str] = (),
    *,
    without: Path | None = None,
    is_still: Callable[[str, FileStamp], bool] = lambda path, stamp: True,
) -> Scan:
    """Look at folders, and at single pictures, each with what is said of them.

    Captions are the lines of `dog.txt` beside `dog.jpg`, and the rows of the table `captions` for
    the pictures of the one folder. Nothing below `without`, the folder of the index, is taken.
    Files that are not still are left for later.

    Raises:
        DatasetError: the table or a pattern cannot be read.
    """
    found = Scan()
    for path in paths:
        if path.is_file():
            place = path.parent.resolve() / path.name
            _take(found, None, place.parent, [place.name], found.skipped, None)
        else:
            _scan_folder(found, path.resolve(), captions, exclude, without)
    for path_, file in found.files.items():
        if file.stamp is not None and not is_still(path_, file.stamp):
            found.unsettled.add(path_)
            found.files[path_] = replace(file, stamp=None)
    return found


def _scan_folder(
    found: Scan, root: Path, captions: Path | None, exclude: Sequence[str], without: Path | None
) -> None:
    found.folders[root] = None
    try:
        found.folders[root] = root.stat().st_dev
    except OSError as error:
        found.skipped.add(str(root), "folder that cannot be read", detail=error.strerror or "")
        found.unknown.append(root)
        return
    walked = pictures_of(root, exclude, captions, found.skipped)
    found.unknown += [root / place for place in walked.unread]
    inside = without is not None and without.is_relative_to(root)
    own = f"{without.relative_to(root).as_posix()}/" if inside and without is not None else None
    names = [name for name in walked.pictures if own is None or not name.startswith(own)]
    _take(found, root, root, names, found.skipped, captions)


def _take(
    found: Scan,
    folder: Path | None,
    root: Path,
    names: list[str],
    skipped: SkippedRows,
    table: Path | None,
) -> None:
    # A folder may be named, and one within it.
    names = [name for name in names if f"{root}/{name}" not in found.files]
    beside = captions_beside(root, names, skipped)
    of_table = FolderCaptions() if table is None else captions_in(table, root, names, skipped)
    for name in names:
        path = f"{root}/{name}"
        if not source.is_text(path):
            skipped.add(ascii(name), "file name with broken characters")
            continue
        said = {} if name in beside.unread else {"": beside.texts.get(name, [])}
        if table is not None:
            said[str(table.resolve())] = of_table.texts.get(name, [])
        split = of_table.splits.get(name, "")
        found.files[path] = SeenFile(path, folder, name, _stamp(path), said, split)


def _stamp(path: str) -> FileStamp | None:
    try:
        facts = Path(path).stat()
    except OSError:
        return None
    return FileStamp(facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)


def read_digests(paths: Iterable[str]) -> dict[str, str]:
    """Return the SHA-256 of files, by path; one that cannot be read has none.

    Raises:
        OSError: the system has no more open files or memory to give, or cannot reach the disk.
    """
    every = list(paths)
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="hasse-read") as pool:
        digests = pool.map(_digest, every)
        return {path: found for path, found in zip(every, digests, strict=True) if found}


def _digest(path: str) -> str:
    try:
        return durable.sha256(Path(path))
    except OSError as error:
        raise_system_error(error)
        return ""
