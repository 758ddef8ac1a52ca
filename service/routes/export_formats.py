"""Exports hits and images to other programs: CSV, JSON lines, ZIP, links, Parquet."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from io import RawIOBase, StringIO
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypeAlias
from zipfile import ZIP_STORED, ZipFile, ZipInfo

import numpy as np

from hasse.index.store import Index
from hasse.index.types import ImageRow
from hasse.models.errors import HasseError, pip_install
from hasse.models.regular_file import open_regular
from hasse.service.core.searching import ShownPaths
from hasse.service.verdict import hit_word, is_hit

Format: TypeAlias = Literal["csv", "jsonl", "zip"]
MEDIA_TYPES: Mapping[Format, str] = {
    "csv": "text/csv; charset=utf-8",
    "jsonl": "application/x-ndjson",
    "zip": "application/zip",
}
Fields: TypeAlias = Mapping[str, Any]  # of a hit, or of an image
_PIECE = 1 << 18  # bytes of a file that are read at a time
_BLOCK = 1024  # images whose rows are read together
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest date of a ZIP entry
_SERVICE_FIELDS = ("image_url", "thumbnail_url", "versions")
_NESTED_FIELDS = (*_SERVICE_FIELDS, "shows")  # in CSV; the same values have columns of their own


class ExportError(HasseError):
    """The export cannot be written. The message has the remedy."""


def images(index: Index) -> Iterator[Fields]:
    """Yield the facts and captions of all images of an index, by id, with absolute paths."""
    rows, _ = index.catalog.all_rows()
    return images_of(index, [row.id for row in rows], ShownPaths(index, absolute=True))


def images_of(index: Index, image_ids: Sequence[int], paths: ShownPaths) -> Iterator[Fields]:
    """Yield the facts and captions of images by id; ids without an image are left out."""
    for at in range(0, len(image_ids), _BLOCK):
        block = index.catalog.described_images(image_ids[at : at + _BLOCK])
        for id_, image in sorted(block.items()):
            row = image.row
            shown_paths = paths.shown(
                row.file_name, [(path.path, path.folder) for path in image.paths]
            )
            yield {
                "image_id": id_,
                "file_name": row.file_name,
                "path": shown_paths[0],
                "paths": shown_paths,
                "width": row.width,
                "height": row.height,
                "split": row.split,
                "sha256": row.sha256,
                "added": row.added,
                "taken": row.taken,
                "captions": [
                    caption.text for caption in image.captions if caption.written_by is None
                ],
                "written_captions": [
                    caption.text for caption in image.captions if caption.written_by
                ],
            }


def rows_of(hits: Iterable[Fields], nearest: int) -> list[Fields]:
    """Return hits that show or say what was searched for, each with its verdict in words.

    `nearest` is how many of the other hits follow. Without probabilities all are returned.
    """
    rows: list[Fields] = []
    for hit in hits:
        says, probability = bool(hit["says"]), hit["probability"]
        if probability is not None and not is_hit(probability, says=says):
            nearest -= 1
            if nearest < 0:
                continue
        rows.append({**hit, "verdict": hit_word(probability, says=says)})
    return rows


def lines(rows: Iterable[Fields], format_: Format) -> Iterator[bytes]:
    """Yield rows as lines of JSON, or as CSV with the column names in the first line."""
    for at, row in enumerate(rows):
        left_out = _SERVICE_FIELDS if format_ == "jsonl" else _NESTED_FIELDS
        fields = {name: value for name, value in row.items() if name not in left_out}
        if format_ == "jsonl":
            yield json.dumps(fields, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"
            continue
        out = StringIO(newline="")
        writer = csv.writer(out)
        if at == 0:
            writer.writerow(fields)
        writer.writerow([_cell(value) for value in fields.values()])
        yield out.getvalue().encode("utf-8", "surrogateescape")


def _cell(value: Any) -> Any:
    """Return a value as one cell of CSV, with one line for each item of a list."""
    if isinstance(value, list):
        return "\n".join(
            ": ".join(map(str, item.values())) if isinstance(item, dict) else str(item)
            for item in value
        )
    return "" if value is None else value


class Originals:
    """The picture files of images, in order; missing files are left out.

    Attributes:
        files: pairs of a unique relative name and a path.
        size: bytes of all files.
        missing: names of files that are missing, or outside of their folder by a link.
    """

    def __init__(self, index: Index, rows: Sequence[Fields]) -> None:
        images_by_id = index.catalog.images([row["image_id"] for row in rows])
        self.files: list[tuple[str, Path]] = []
        self.missing: list[str] = []
        self.size = 0
        used_names: set[str] = set()
        for row in rows:
            original = _original(index, images_by_id.get(row["image_id"]))
            if original is None:
                self.missing.append(row["path"])
                continue
            path, size = original
            name = _entry_name(row["path"])
            if name.casefold() in used_names:
                name = f"{row['image_id']}-{name.rpartition('/')[2]}"
            used_names.add(name.casefold())
            self.files.append((name, path))
            self.size += size

    def zip_pieces(self) -> Iterator[bytes]:
        """Yield a ZIP of the files, a piece at a time; `missing.txt` in it names missing files."""
        sink = _Sink()
        with ZipFile(sink, "w", ZIP_STORED) as archive:
            for name, path in self.files:
                try:
                    file = open_regular(path)
                except OSError:  # the file was deleted meanwhile
                    self.missing.append(name)
                    continue
                with file, archive.open(ZipInfo(name, _EPOCH), "w", force_zip64=True) as entry:
                    while piece := file.read(_PIECE):
                        entry.write(piece)
                        yield sink.take()
            if self.missing:
                text = "".join(f"{name}\n" for name in self.missing)
                archive.writestr("missing.txt", text.encode("utf-8", "surrogateescape"))
        yield sink.take()

    def link(self, folder: Path) -> None:
        """Make a folder of links to the files.

        Raises:
            ExportError: the folder exists and is not empty.
        """
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise ExportError(f"{folder} is not empty: name a new folder for the links")
        for name, path in self.files:
            link = folder / name
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(path)


def _original(index: Index, image: ImageRow | None) -> tuple[Path, int] | None:
    if image is None:
        return None
    path = index.path_of(image)
    try:
        size = path.stat().st_size
    except OSError:
        return None
    return None if index.locations.leads_out(str(path)) else (path, size)


def _entry_name(path: str) -> str:
    """Return a safe relative path, which stays below the folder that a ZIP is unpacked to."""
    parts = [part for part in re.split(r"[/\\]", path) if part not in ("", ".", "..")]
    return "/".join(parts[-4:]).replace("\0", "_").replace(":", "_") or "picture"


class _Sink(RawIOBase):
    """A write-only file in memory, which is emptied piece by piece."""

    def __init__(self) -> None:
        self._written = bytearray()

    def write(self, piece: Any) -> int:
        """Append a piece."""
        self._written += piece
        return len(piece)

    def take(self) -> bytes:
        """Return the bytes that were written since the last call."""
        written, self._written = bytes(self._written), bytearray()
        return written


def write_parquet(
    index: Index, rows: Iterable[Fields], path: Path, report: Callable[[int], None]
) -> None:
    """Write rows with the embeddings of their images, in bounded memory.

    The metadata of the schema name the model of the embeddings. `report` receives the number of
    rows so far.

    Raises:
        HasseError: pyarrow is missing.
    """
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ModuleNotFoundError as error:
        raise HasseError(f"Parquet needs pyarrow: {pip_install('parquet')}") from error
    model = index.model
    embedding = arrow.list_(arrow.float32(), model.dimension)
    integer, text, texts = arrow.int64(), arrow.string(), arrow.list_(arrow.string())
    types = {"image_id": integer, "file_name": text, "path": text, "paths": texts}
    types |= {"width": integer, "height": integer, "split": text, "sha256": text}
    types |= {"added": integer, "taken": integer}
    types |= {"captions": texts, "written_captions": texts, "embedding": embedding}
    facts = {"model": model.name, "fingerprint": model.fingerprint, "score": model.score}
    schema = arrow.schema(list(types.items()), metadata=facts)
    partial, remaining, done = path.with_name(path.name + ".partial"), iter(rows), 0
    with parquet.ParquetWriter(partial, schema) as writer:
        while block := list(islice(remaining, _BLOCK)):
            points = index.points("image", [row["image_id"] for row in block])
            present = [row for row in block if row["image_id"] in points]
            columns = {name: [row[name] for row in present] for name in schema.names[:-1]}
            flat = np.concatenate([points[row["image_id"]] for row in present])
            columns["embedding"] = arrow.FixedSizeListArray.from_arrays(flat, model.dimension)
            writer.write_table(arrow.table(columns, schema=schema))
            report(done := done + len(block))
    partial.replace(path)
