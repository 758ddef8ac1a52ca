"""A folder of pictures; captions, where there are any, beside them or in one table."""

from __future__ import annotations

import csv
import io
import json
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hasse.models.datasets import source
from hasse.models.datasets.builder import NO_TEXT, SPLITS, DatasetBuilder, Tally, fault_of_caption
from hasse.models.datasets.dataset import Dataset, DatasetError
from hasse.models.datasets.names import plain_name
from hasse.models.datasets.skipped_rows import SkippedRows
from hasse.models.datasets.walk import Walked, walk
from hasse.models.images.limits import DEFAULT_LIMITS, PictureLimits

_EXPECTED = "it needs the columns 'file_name' and 'caption', and may have 'split'"


@dataclass(frozen=True, slots=True)
class _Said:
    """A caption that a row gives to a picture; `subject` says where."""

    subject: str
    file_name: str
    caption: object
    split: str


def read(
    folder: Path,
    captions: Path | None = None,
    *,
    exclude: Sequence[str] = (),
    progress: Tally = lambda done, total: None,
    limits: PictureLimits = DEFAULT_LIMITS,
) -> tuple[Dataset, SkippedRows]:
    """Read the pictures in a folder and all folders below it, as `walk` finds them.

    Captions are the lines of `dog.txt` beside `dog.jpg`; or the rows of `captions`, a CSV, TSV or
    JSON-lines file with `file_name` (relative to the folder), `caption` and, if wanted, `split`.
    Images are numbered from 1 in the order of their names.

    Raises:
        DatasetError: a file or folder is missing, the table has not these columns, or there is no
            usable picture.
    """
    root = source.folder(folder)
    builder = DatasetBuilder(root.name)
    names = pictures_of(root, exclude, captions, builder.skipped).pictures
    if not names:
        rest = "".join(f" ({line})" for line in builder.skipped.told()[-1:])
        raise DatasetError(
            f"no pictures in {folder} and below{rest}: docs/collections.md lists the formats"
        )
    ids = {name: at for at, name in enumerate(names, start=1)}
    names_of = _names_on_disk(names)
    skipped = builder.skipped
    if captions is None:
        said = list(_beside(root, names, skipped))
    else:
        said = [_as_on_disk(row, names_of) for row in _table(captions, skipped)]
    splits: dict[str, str] = {}
    for row in said:
        first = splits[row.file_name] = splits.get(row.file_name) or row.split
        if row.split and SPLITS.get(row.split.lower()) != SPLITS.get(first.lower()):
            subject = f"{row.subject} ({row.file_name})"
            skipped.add(subject, "another split than before", f"{first} is kept", row.split)
    for name, image_id in ids.items():
        builder.image(image_id, name, [root], split=splits.get(name, ""))
    for number, row in enumerate(said, start=1):
        if row.file_name in ids:
            builder.caption(number, ids[row.file_name], row.caption, row.subject)
        else:
            skipped.add(f"{row.subject} ({row.file_name})", "file not found")
    return builder.finish(progress=progress, limits=limits)


@dataclass(slots=True)
class FolderCaptions:
    """What is said of the pictures of a folder, by their names, and their splits.

    Attributes:
        texts: the captions of a picture, whitespace within them made single spaces.
        splits: of the pictures that a table gives one.
        unread: pictures whose text file is there and cannot be read.
    """

    texts: dict[str, list[str]] = field(default_factory=dict)
    splits: dict[str, str] = field(default_factory=dict)
    unread: set[str] = field(default_factory=set)

    def add(self, row: _Said, skipped: SkippedRows) -> None:
        """Take one row, or note what is wrong with it."""
        if row.split:
            self.splits.setdefault(row.file_name, row.split)
        if not isinstance(row.caption, str):
            skipped.add(row.subject, NO_TEXT)
        elif (fault := fault_of_caption(row.caption)) is not None:
            skipped.add(row.subject, fault)
        else:
            texts = self.texts.setdefault(row.file_name, [])
            text = " ".join(row.caption.split())
            if text not in texts:
                texts.append(text)


def captions_beside(root: Path, names: Iterable[str], skipped: SkippedRows) -> FolderCaptions:
    """Read the text files beside pictures."""
    found = FolderCaptions()
    for name in names:
        for row in _beside(root, [name], skipped, found.unread):
            found.add(row, skipped)
    return found


def captions_in(table: Path, names: Sequence[str], skipped: SkippedRows) -> FolderCaptions:
    """Read a table of captions for the pictures of a folder; raises DatasetError as `read`."""
    names_of = _names_on_disk(names)
    there, found = set(names), FolderCaptions()
    for row in (_as_on_disk(row, names_of) for row in _table(table, skipped)):
        if row.file_name in there:
            found.add(row, skipped)
        else:
            skipped.add(f"{row.subject} ({row.file_name})", "file not found")
    return found


def pictures_of(
    root: Path, exclude: Sequence[str], captions: Path | None, skipped: SkippedRows
) -> Walked:
    """Return what a folder and those below it hold, and note what is passed over."""
    table = None if captions is None else captions.resolve()
    found = walk(root, exclude, table)
    for name, why in found.unread.items():
        skipped.add(name, "folder that cannot be read", detail=why)
    for name in found.links:
        skipped.add(name, "link to a folder, not followed")
    for name in found.other_pictures:
        skipped.add(name, "format that is not read, convert it to JPEG")
    skipped.passed_over.update(found.passed_over)
    return found


def _beside(
    root: Path, names: list[str], skipped: SkippedRows, unread: set[str] | None = None
) -> Iterator[_Said]:
    for name in names:
        path = (root / name).with_suffix(".txt")
        if not source.is_file(path):
            continue
        subject = path.relative_to(root).as_posix()
        try:
            text = source.read_text(path)
        except DatasetError as error:
            skipped.add(subject, "captions that cannot be read", detail=str(error))
            if unread is not None:
                unread.add(name)
            continue
        for number, line in enumerate(text.splitlines(), start=1):
            if line.strip():
                yield _Said(f"{subject}, line {number}", name, line, "")


def _names_on_disk(names: Sequence[str]) -> dict[str, str]:
    found = {unicodedata.normalize("NFC", name): name for name in names}
    return found | {name: name for name in names}


def _as_on_disk(row: _Said, names_of: Mapping[str, str]) -> _Said:
    """Name a picture as the disk does; a letter and its accent can be written in two ways."""
    written = row.file_name
    name = names_of.get(written) or names_of.get(unicodedata.normalize("NFC", written), written)
    return replace(row, file_name=name)


def _table(path: Path, skipped: SkippedRows) -> Iterator[_Said]:
    text = source.read_text(path)
    lines = path.suffix.lower() in {".jsonl", ".ndjson", ".json"}
    rows = _json_rows if lines else _csv_rows
    for number, row in rows(text, path, skipped):
        subject = f"{path.name}, line {number}"
        name, caption, split = (row.get(key) for key in ("file_name", "caption", "split"))
        if not isinstance(name, str) or not name.strip():
            skipped.add(subject, "no file name")
        else:
            named = split.strip() if isinstance(split, str) else ""
            yield _Said(subject, plain_name(name), caption, named)


def _csv_rows(
    text: str, path: Path, skipped: SkippedRows
) -> Iterator[tuple[int, Mapping[str, object]]]:
    mark = "\t" if path.suffix.lower() == ".tsv" else ","
    file = io.StringIO(text, newline="")
    reader = csv.DictReader(file, delimiter=mark, skipinitialspace=True)
    try:
        found = [name.strip().lower() for name in reader.fieldnames or ()]
        reader.fieldnames = found
        if not {"file_name", "caption"} <= set(found):
            raise DatasetError(f"{path} has the columns {', '.join(found)}: {_EXPECTED}")
        lines, begin = text.split("\n"), reader.line_num
        row: Mapping[str | None, Any]
        for row in reader:
            of_row, begin = lines[begin : reader.line_num], reader.line_num
            # A quote that is never closed makes one caption of all rows up to the next quote.
            cells = (*row.values(), *row.get(None, ()))
            rest = next((cell for cell in cells if isinstance(cell, str) and "\n" in cell), None)
            if rest is not None and not _is_well_quoted(of_row, mark):
                raise DatasetError(
                    f"{path} has a quote that is never closed, before {rest[:20]!r}: close it, "
                    f'and write " twice where a caption has one'
                )
            if any(row.get(None, ())):  # what is behind an unquoted comma of a caption
                subject = f"{path.name}, line {reader.line_num}"
                remedy = f"quote a caption that holds a {'comma' if mark == ',' else 'tab'}"
                skipped.add(subject, "more cells than columns", detail=remedy)
                continue
            yield reader.line_num, row
    except csv.Error as error:
        raise DatasetError(
            f"{path} is broken at line {reader.line_num}: {error}; quote captions that hold "
            f"a comma or a line break"
        ) from error


def _is_well_quoted(lines: Sequence[str], mark: str) -> bool:
    try:
        for _ in csv.reader(lines, delimiter=mark, skipinitialspace=True, strict=True):
            pass
    except csv.Error:
        return False
    return True


def _json_rows(
    text: str, path: Path, skipped: SkippedRows
) -> Iterator[tuple[int, Mapping[str, object]]]:
    some = False
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            skipped.add(f"{path.name}, line {number}", "line that is not JSON", detail=str(error))
            continue
        if not isinstance(row, dict):
            skipped.add(f"{path.name}, line {number}", "row that is no object")
            continue
        some = some or {"file_name", "caption"} <= row.keys()
        yield number, row
    if not some:
        raise DatasetError(
            f"{path} has no line that is a JSON object with 'file_name' and 'caption': it needs "
            f"one object a line, and each may have 'split'"
        )
