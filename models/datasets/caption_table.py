"""Tables of captions: CSV, TSV or JSON lines, with columns under many names."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from hasse.models.datasets import source
from hasse.models.datasets.dataset import DatasetError
from hasse.models.datasets.names import NameIndex, plain_name
from hasse.models.datasets.skipped_rows import SkippedRows

# Names of each column, the likeliest first.
_COLUMNS = {
    "file_name": (
        *("file_name", "filename", "file", "image_name", "image_file", "image", "filepath"),
        *("file_path", "image_path", "path", "name"),
    ),
    "caption": ("caption", "captions", "text", "description", "comment"),
    "split": ("split", "set", "subset"),
}
_EXPECTED = "it needs the columns 'file_name' and 'caption', and may have 'split'"
_SEPARATORS = {",": "comma", "\t": "tab", ";": "semicolon", "|": "vertical bar"}
_JSON = frozenset({".jsonl", ".ndjson", ".json"})


@dataclass(frozen=True, slots=True)
class CaptionRow:
    """A caption of a picture; `subject` names its file and line."""

    subject: str
    file_name: str
    caption: object
    split: str = ""


def read_table(
    path: Path, root: Path, names: Sequence[str], skipped: SkippedRows
) -> Iterator[CaptionRow]:
    """Yield the captions of a folder's pictures; note rows of other files as skipped.

    Args:
        root: the folder of the pictures.
        names: the pictures, relative to it.

    Raises:
        DatasetError: the file is missing, is not a table, or lacks a column.
    """
    index = NameIndex(names)
    text = source.read_text(path)
    rows = _json_rows if path.suffix.lower() in _JSON else _csv_rows
    for number, row in rows(text, path, skipped):
        subject = f"{path.name}, line {number}"
        file_name, captions, split = (row.get(column) for column in _COLUMNS)
        if not isinstance(file_name, str) or not file_name.strip():
            skipped.add(subject, "no file name")
            continue
        plain_file_name = plain_name(file_name)
        name = next(filter(None, map(index.find, _below(root, plain_file_name))), None)
        if name is None:
            skipped.add(f"{subject} ({plain_file_name})", "file not found")
            continue
        split_name = split.strip() if isinstance(split, str) else ""
        for caption in captions if isinstance(captions, list) else [captions]:
            yield CaptionRow(subject, name, caption, split_name)


def _below(root: Path, name: str) -> Iterator[str]:
    """Yield a path, then its rest after each part that is the folder's name."""
    yield name
    parts = PurePosixPath(name).parts
    for at, part in enumerate(parts, start=1):
        if part.casefold() == root.name.casefold():
            yield "/".join(parts[at:])


def _columns(names: Iterable[str]) -> dict[str, str]:
    """Return the name of each column that is among some names."""
    known = {name.strip().lower().replace(" ", "_").replace("-", "_"): name for name in names}
    columns = {
        column: next((known[name] for name in likely if name in known), None)
        for column, likely in _COLUMNS.items()
    }
    return {column: name for column, name in columns.items() if name is not None}


def _csv_rows(
    text: str, path: Path, skipped: SkippedRows
) -> Iterator[tuple[int, Mapping[str, object]]]:
    mark = _separator(text, path)
    file = io.StringIO(text, newline="")
    # Tables with tabs are mostly written without quoting: a quote is then a part of the caption.
    is_quoted = mark != "\t" or _is_quoted_table(text, mark)
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if is_quoted else csv.QUOTE_NONE
    reader = csv.DictReader(file, delimiter=mark, skipinitialspace=True, quoting=quoting)
    try:
        header = list(reader.fieldnames or ())
        columns = _columns(header)
        if not {"file_name", "caption"} <= columns.keys():
            header_names = ", ".join(name.strip().lower() for name in header)
            raise DatasetError(f"{path} has the columns {header_names}: {_EXPECTED}")
        lines, begin = text.split("\n"), reader.line_num
        row: Mapping[str | None, Any]
        for row in reader:
            row_lines, begin = lines[begin : reader.line_num], reader.line_num
            # A quote that is never closed makes one caption of all rows up to the next quote.
            cells = (*row.values(), *row.get(None, ()))
            cell = next((each for each in cells if isinstance(each, str) and "\n" in each), None)
            if cell is not None and not _is_well_quoted(row_lines, mark):
                raise DatasetError(
                    f"{path} has a quote that is never closed, before {cell[:20]!r}: close it, "
                    f'and write " twice where a caption has one'
                )
            if any(row.get(None, ())):  # the rest of a caption with an unquoted comma
                subject = f"{path.name}, line {reader.line_num}"
                remedy = f"quote a caption that holds a {_SEPARATORS[mark]}"
                skipped.add(subject, "more cells than columns", detail=remedy)
                continue
            cells_by_column = {column: row[name] for column, name in columns.items()}
            if not is_quoted:
                cells_by_column = {name: _unquoted(cell) for name, cell in cells_by_column.items()}
            yield reader.line_num, cells_by_column
    except csv.Error as error:
        raise DatasetError(
            f"{path} is broken at line {reader.line_num}: {error}; quote captions that hold "
            f"a comma or a line break"
        ) from error


def _separator(text: str, path: Path) -> str:
    """Return the separator that gives the first line both columns, else the usual one."""
    usual = "\t" if path.suffix.lower() == ".tsv" else ","
    header = text.lstrip("\n").partition("\n")[0]
    for mark in (usual, *_SEPARATORS):
        names = _columns(name.strip(' "') for name in header.split(mark))
        if {"file_name", "caption"} <= names.keys():
            return mark
    return usual


def _is_quoted_table(text: str, mark: str) -> bool:
    """Return whether all quotes of a table enclose cells, none of them several by mistake."""
    try:
        rows = csv.reader(
            io.StringIO(text, newline=""), delimiter=mark, skipinitialspace=True, strict=True
        )
        return not any("\n" in cell and mark in cell for row in rows for cell in row)
    except csv.Error:
        return False


def _unquoted(cell: str | None) -> str | None:
    """Return a cell without quotes that enclose it as a whole."""
    inside = "" if cell is None else cell[1:-1]
    is_quoted = cell is not None and len(cell) > 1 and cell[0] == cell[-1] == '"'
    return inside.replace('""', '"') if is_quoted and '"' not in inside.replace('""', "") else cell


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
    complete = False
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            skipped.add(f"{path.name}, line {number}", "line that is not JSON", detail=str(error))
            continue
        if not isinstance(row, dict):
            skipped.add(f"{path.name}, line {number}", "row that is not an object")
            continue
        columns = _columns(row)
        complete = complete or {"file_name", "caption"} <= columns.keys()
        yield number, {column: row[name] for column, name in columns.items()}
    if not complete:
        raise DatasetError(
            f"{path} has no line that is a JSON object with 'file_name' and 'caption': it needs "
            f"one object a line, and each may have 'split'"
        )
