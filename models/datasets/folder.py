"""A folder of pictures, with captions beside them or in one table, or without."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path, PurePosixPath

from hasse.models.datasets import source
from hasse.models.datasets.builder import SPLITS, DatasetBuilder, ProgressCallback, caption_text
from hasse.models.datasets.caption_files import caption_files
from hasse.models.datasets.caption_table import CaptionRow, read_table
from hasse.models.datasets.dataset import Dataset, DatasetError
from hasse.models.datasets.skipped_rows import SkippedRows
from hasse.models.datasets.walk import FolderContents, leads_out, walk
from hasse.models.images.limits import DEFAULT_LIMITS, PictureLimits

BROKEN_LINK = "link to no file, mend or delete it"
NO_FILE = "pipe, socket or device, --exclude leaves it out"
_MAX_BYTES = 1 << 20  # of one caption file


def read(
    folder: Path,
    captions: Path | None = None,
    *,
    exclude: Sequence[str] = (),
    progress: ProgressCallback = lambda done, total: None,
    limits: PictureLimits = DEFAULT_LIMITS,
) -> tuple[Dataset, SkippedRows]:
    """Read the pictures in a folder and all folders below it, as `walk` finds them.

    Captions are the lines of the files that `caption_files` finds, or the rows of `captions`: a
    table with `file_name`, `caption` and optionally `split`. Images are numbered from 1 in the
    order of their names.

    Raises:
        DatasetError: a file or folder is missing, the table lacks a column, or there is no usable
            picture.
    """
    root = source.folder(folder)
    builder = DatasetBuilder(root.name)
    skipped = builder.skipped
    names = pictures_of(root, exclude, captions, skipped, follow_links=True).pictures
    if not names:
        rest = "".join(f" ({line})" for line in builder.skipped.report_lines()[-1:])
        raise DatasetError(
            f"no pictures in {folder} and below{rest}: docs/collections.md lists the formats"
        )
    ids = {name: at for at, name in enumerate(names, start=1)}
    if captions is None:
        rows = list(_beside(root, names, skipped, follow_links=True))
    else:
        rows = list(read_table(captions, root, names, skipped))
    splits: dict[str, str] = {}
    for row in rows:
        first = splits[row.file_name] = splits.get(row.file_name) or row.split
        if row.split and SPLITS.get(row.split.lower()) != SPLITS.get(first.lower()):
            subject = f"{row.subject} ({row.file_name})"
            skipped.add(subject, "another split than before", f"{first} is kept", row.split)
    for name, image_id in ids.items():
        builder.add_image(image_id, name, [root], split=splits.get(name, ""))
    for number, row in enumerate(rows, start=1):
        builder.add_caption(number, ids[row.file_name], row.caption, row.subject)
    return builder.finish(progress=progress, limits=limits)


@dataclass(slots=True)
class FolderCaptions:
    """Captions of the pictures of a folder, by their names, and their splits.

    Attributes:
        texts: the captions of each picture, with single spaces.
        splits: of pictures that have a split in a table.
        unread: pictures with a caption file that cannot be read.
    """

    texts: dict[str, list[str]] = field(default_factory=dict)
    splits: dict[str, str] = field(default_factory=dict)
    unread: set[str] = field(default_factory=set)

    def add(self, row: CaptionRow, skipped: SkippedRows) -> None:
        """Add a row, or note what is wrong with it."""
        if row.split:
            self.splits.setdefault(row.file_name, row.split)
        text = caption_text(row.caption, row.subject, skipped)
        if text is not None and text not in self.texts.setdefault(row.file_name, []):
            self.texts[row.file_name].append(text)


def captions_beside(
    root: Path, names: Iterable[str], skipped: SkippedRows, *, follow_links: bool = False
) -> FolderCaptions:
    """Read the caption files beside pictures; links out of the folder only with `follow_links`."""
    collected = FolderCaptions()
    for row in _beside(root, names, skipped, collected.unread, follow_links=follow_links):
        collected.add(row, skipped)
    return collected


def captions_of_table(
    table: Path, root: Path, names: Sequence[str], skipped: SkippedRows
) -> FolderCaptions:
    """Read a table of captions for the pictures of a folder; raises DatasetError as `read`."""
    collected = FolderCaptions()
    for row in read_table(table, root, names, skipped):
        collected.add(row, skipped)
    return collected


def pictures_of(
    root: Path,
    exclude: Sequence[str],
    captions: Path | None,
    skipped: SkippedRows,
    *,
    within: str = "",
    follow_links: bool = False,
) -> FolderContents:
    """Return the contents of a folder, or a part of it, as `walk`; note skipped files."""
    table = None if captions is None else captions.resolve()
    contents = walk(root, exclude, table, within=within, follow_links=follow_links)
    for name, reason in contents.unread.items():
        skipped.add(name, "folder that cannot be read", detail=reason)
    for name in contents.links:
        skipped.add(name, "link to a folder, not followed")
    for name in contents.outside:
        skipped.add(name, _link_problem(root / name))
    for name in contents.no_files:
        skipped.add(name, NO_FILE)
    for name in contents.other_pictures:
        skipped.add(name, "format that is not read, convert it to JPEG")
    skipped.passed_over.update(contents.passed_over)
    return contents


def _link_problem(path: Path) -> str:
    outside = "link out of the folder, --follow-links takes it"
    return outside if source.is_file(path) else BROKEN_LINK


def _beside(
    root: Path,
    names: Iterable[str],
    skipped: SkippedRows,
    unread: set[str] | None = None,
    *,
    follow_links: bool = False,
) -> Iterator[CaptionRow]:
    """Yield the captions in the files beside pictures, folder by folder."""
    by_folder = sorted(map(PurePosixPath, names), key=lambda name: name.parent)
    for folder, pictures in groupby(by_folder, key=lambda name: name.parent):
        files = [path.name for path in (root / folder).iterdir()]
        for file, owners in caption_files(files, {name.name for name in pictures}).items():
            subject, path = (folder / file).as_posix(), root / folder / file
            if path.is_symlink() and not follow_links and leads_out(path, root):
                skipped.add(subject, _link_problem(path))
                continue
            try:
                text = source.read_text(path, max_bytes=_MAX_BYTES)
            except DatasetError as error:
                skipped.add(subject, "captions that cannot be read", detail=str(error))
                if unread is not None:
                    unread.update((folder / name).as_posix() for name in owners)
                continue
            for name in owners:
                for number, line in enumerate(text.splitlines(), start=1):
                    if line.strip():
                        file_name = (folder / name).as_posix()
                        yield CaptionRow(f"{subject}, line {number}", file_name, line)
