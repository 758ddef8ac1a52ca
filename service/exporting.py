"""Hits and images for other programs: CSV, JSON lines, a ZIP of originals, links, Parquet."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any, Literal, TypeAlias
from zipfile import ZIP_STORED, ZipFile, ZipInfo

import numpy as np

from hasse.index.store import Index
from hasse.index.types import ImageRow
from hasse.models.errors import HasseError, pip_install
from hasse.models.regular_file import open_regular
from hasse.service.core.searching import ShownPaths

Format: TypeAlias = Literal["csv", "jsonl", "zip"]
MEDIA_TYPES: Mapping[Format, str] = {
    "csv": "text/csv; charset=utf-8",
    "jsonl": "application/x-ndjson",
    "zip": "application/zip",
}
Fields: TypeAlias = Mapping[str, Any]  # of a hit, or of an image
_PIECE = 1 << 18  # bytes of a file that are read at a time
_BLOCK = 1024  # images whose rows are read together
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the first date that a ZIP can name
_LEFT_OUT = ("image_url", "thumbnail_url", "versions")


class ExportError(HasseError):
    """Nothing can be written there, or that; the message says what to do."""


def images(index: Index) -> Iterator[Fields]:
    """Yield the facts and captions of all images of an index, by id, with absolute paths."""
    rows, _ = index.catalog.all_rows()
    return images_of(index, [row.id for row in rows], ShownPaths(index, absolute=True))


def images_of(index: Index, image_ids: Sequence[int], paths: ShownPaths) -> Iterator[Fields]:
    """Yield the facts and captions of those of the images that there are, by id."""
    for at in range(0, len(image_ids), _BLOCK):
        found = index.catalog.described_images(image_ids[at : at + _BLOCK])
        for id_, image in sorted(found.items()):
            row = image.row
            shown = paths.shown(row.file_name, [(one.path, one.folder) for one in image.paths])
            yield {
                "image_id": id_,
                "file_name": row.file_name,
                "path": shown[0],
                "paths": shown,
                "width": row.width,
                "height": row.height,
                "split": row.split,
                "sha256": row.sha256,
                "added": row.added,
                "taken": row.taken,
                "captions": [one.text for one in image.captions if one.written_by is None],
                "written_captions": [one.text for one in image.captions if one.written_by],
            }


def lines(rows: Iterable[Fields], format_: Format) -> Iterator[bytes]:
    """Yield rows as lines of CSV, the first with the names of the columns, or of JSON."""
    for at, row in enumerate(rows):
        kept = {name: value for name, value in row.items() if name not in _LEFT_OUT}
        if format_ == "jsonl":
            yield json.dumps(kept, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"
            continue
        out = StringIO(newline="")
        writer = csv.writer(out)
        if at == 0:
            writer.writerow(kept)
        writer.writerow([_cell(value) for value in kept.values()])
        yield out.getvalue().encode("utf-8", "surrogateescape")


def _cell(value: Any) -> Any:
    """Return a value as one cell; each entry of a list has a line of its own."""
    if isinstance(value, list):
        return "\n".join(map(str, value))
    return "" if value is None else value


class Originals:
    """The picture files of images, in their order; those that are not there are left out.

    Attributes:
        files: pairs of a unique relative name and a path.
        size: bytes of all of them.
        missing: names of those that are not there, or lie outside of their folder by a link.
    """

    def __init__(self, index: Index, rows: Sequence[Fields]) -> None:
        known = index.catalog.images([row["image_id"] for row in rows])
        self.files: list[tuple[str, Path]] = []
        self.missing: list[str] = []
        self.size = 0
        taken: set[str] = set()
        for row in rows:
            found = _original(index, known.get(row["image_id"]))
            if found is None:
                self.missing.append(row["path"])
                continue
            path, size = found
            name = _name(row["path"])
            if name.casefold() in taken:
                name = f"{row['image_id']}-{name.rpartition('/')[2]}"
            taken.add(name.casefold())
            self.files.append((name, path))
            self.size += size

    def zipped(self) -> Iterator[bytes]:
        """Yield a ZIP of the files, a piece at a time; `missing.txt` names those left out."""
        sink = _Sink()
        with ZipFile(sink, "w", ZIP_STORED) as archive:
            for name, path in self.files:
                try:
                    file = open_regular(path)
                except OSError:  # it went since it was counted
                    self.missing.append(name)
                    continue
                with file, archive.open(ZipInfo(name, _EPOCH), "w", force_zip64=True) as entry:
                    while piece := file.read(_PIECE):
                        entry.write(piece)
                        yield sink.taken()
            if self.missing:
                text = "".join(f"{name}\n" for name in self.missing)
                archive.writestr("missing.txt", text.encode("utf-8", "surrogateescape"))
        yield sink.taken()

    def link(self, folder: Path) -> None:
        """Make a folder of links to the files.

        Raises:
            ExportError: it is there already and not empty.
        """
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise ExportError(f"{folder} is not empty: name a new folder for the links")
        for name, path in self.files:
            place = folder / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(path)


def _original(index: Index, image: ImageRow | None) -> tuple[Path, int] | None:
    if image is None:
        return None
    path = index.path_of(image)
    try:
        size = path.stat().st_size
    except OSError:
        return None
    return None if index.locations.leads_out(str(path)) else (path, size)


def _name(path: str) -> str:
    """Return a path as a relative one that stays below where it is unpacked."""
    parts = [part for part in re.split(r"[/\\]", path) if part not in ("", ".", "..")]
    return "/".join(parts[-4:]).replace("\0", "_").replace(":", "_") or "picture"


class _Sink:
    """A file that is only written: what was written is taken away piece by piece."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def write(self, piece: Any) -> int:
        """Take a piece."""
        self._pieces.append(bytes(piece))
        return len(self._pieces[-1])

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """Nothing is held open."""

    def taken(self) -> bytes:
        """Return what was written since the last call."""
        found, self._pieces = b"".join(self._pieces), []
        return found


def write_parquet(
    index: Index, rows: Iterable[Fields], place: Path, report: Callable[[int], None]
) -> None:
    """Write rows with the embeddings of their images, in bounded memory.

    The model that made the embeddings stands in the metadata of the schema. `report` is called
    with how many rows are written.

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
    whole, text, texts = arrow.int64(), arrow.string(), arrow.list_(arrow.string())
    types = {"image_id": whole, "file_name": text, "path": text, "paths": texts, "width": whole}
    types |= {"height": whole, "split": text, "sha256": text, "added": whole, "taken": whole}
    types |= {"captions": texts, "written_captions": texts, "embedding": embedding}
    facts = {"model": model.name, "fingerprint": model.fingerprint, "score": model.score}
    schema = arrow.schema(list(types.items()), metadata=facts)
    partial, every, done = place.with_name(place.name + ".partial"), iter(rows), 0
    with parquet.ParquetWriter(partial, schema) as writer:
        while block := [row for row, _ in zip(every, range(_BLOCK), strict=False)]:
            points = index.points("image", [row["image_id"] for row in block])
            kept = [row for row in block if row["image_id"] in points]
            columns = {name: [row[name] for row in kept] for name in schema.names[:-1]}
            flat = np.concatenate([points[row["image_id"]] for row in kept])
            columns["embedding"] = arrow.FixedSizeListArray.from_arrays(flat, model.dimension)
            writer.write_table(arrow.table(columns, schema=schema))
            report(done := done + len(block))
    partial.replace(place)
