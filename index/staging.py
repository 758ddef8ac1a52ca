"""What a build has finished so far: kept across kills, and shown to nobody.

    INDEX/staging/journal.json    how much of each file below is valid, and the sealed segments
    INDEX/staging/image.jsonl     catalog rows, one JSON array each
    INDEX/staging/caption.jsonl
    INDEX/staging/image/          the segment that is growing
    INDEX/staging/caption/

Each block is synced before the journal says that it is there, so a kill loses one block at most.
The journal has its checksums, and where it is not as it was written the build starts anew.
Sealed segments already have their names under INDEX/segments, where the journal protects them
from the sweep until the catalog does.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any
from zlib import crc32

import numpy as np
from numpy.typing import ArrayLike

from index import durable
from index.catalog.records import SegmentRecord, file_records
from index.catalog.validation import check_texts, first_duplicate
from index.errors import BadRowsError, DamagedIndexError, UnfinishedIndexError
from index.segments.segment import IDS, SEGMENTS_FOLDER, Segment, SegmentWriter
from index.types import KINDS, CaptionRow, Ids, ImageRow, Kind, ModelIdentity

STAGING = "staging"
JOURNAL = "journal.json"

# In the place of a file there is nothing, or a folder, or the other way round.
_MISPLACED = (FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError)


@dataclass(slots=True)
class _Part:
    """The progress of one kind."""

    sealed: list[SegmentRecord] = field(default_factory=list)
    rows: int = 0  # in the growing segment
    grown: list[int] = field(default_factory=lambda: [0, 0])  # its checksums, `SegmentWriter.crc`
    bytes: int = 0  # of the catalog rows
    crc: int = 0  # of the catalog rows, CRC-32

    @property
    def done(self) -> int:
        return self.rows + sum(record.rows for record in self.sealed)


class Staging:
    """The unfinished build of one index; the index's lock must be held."""

    def __init__(
        self,
        folder: Path,
        model: ModelIdentity,
        source: str,
        publish: Callable[[tuple[Path, SegmentRecord]], None],
        rows_per_segment: int,
    ) -> None:
        """Go on where the same build (model and `source`) stopped, or start anew.

        It starts anew, too, where something of what was finished is not as it was written.
        """
        self.folder = folder / STAGING
        self.model = model
        self._identity: dict[str, Any] = {"model": asdict(model), "source": source}
        self._publish = publish
        self._rows_per_segment = rows_per_segment
        self._growing: dict[Kind, SegmentWriter] = {}
        self._rows: dict[Kind, IO[bytes]] = {}
        self._parts = _journal(self.folder, self._identity) or {}
        if not (self._parts and self._goes_on()):
            self.discard()
            self.folder.mkdir(parents=True)
            self._parts = {kind: _Part() for kind in KINDS}
        self._write_journal()
        for kind, part in self._parts.items():
            for record in part.sealed:
                if (place := self._place(kind, record)).parent == self.folder:
                    publish((place, record))

    def done(self, kind: Kind) -> int:
        """Return how many rows of `kind` are finished, in the order they were given."""
        return self._parts[kind].done

    def add(
        self, kind: Kind, rows: Sequence[ImageRow] | Sequence[CaptionRow], points: ArrayLike
    ) -> None:
        """Add a block of rows with their points (R, N); finished, durably, on return.

        Raises:
            BadPointsError, BadRowsError: a row cannot be stored; the message names it.
        """
        part = self._parts[kind]
        writer = self._writer(kind)
        check_texts(rows)
        writer.append([row.id for row in rows], points)
        file = self._row_file(kind)
        lines = "".join(json.dumps(row) + "\n" for row in rows).encode("ascii")
        durable.write(file, lines)
        durable.sync(file)
        writer.sync()
        part.bytes += len(lines)
        part.crc = crc32(lines, part.crc)
        part.rows, part.grown = writer.rows, writer.crc
        if part.rows >= self._rows_per_segment:
            self._seal(kind)
        else:
            self._write_journal()

    def finish(self) -> list[SegmentRecord]:
        """Seal what is growing and return all segments.

        Raises:
            BadRowsError: an id occurs twice, a caption has no image, or there is no image at all;
                the next build starts anew.
        """
        for kind in KINDS:
            if self._parts[kind].rows:
                self._writer(kind)
                self._seal(kind)
        with self._discarded_if_bad():
            if not self._parts["image"].done:
                raise BadRowsError("there are no images to index: name a dataset with pictures")
            self._check_ids()
        return [record for kind in KINDS for record in self._parts[kind].sealed]

    def images(self) -> Iterator[ImageRow]:
        """Yield the catalog rows of all images."""
        return (ImageRow._make(values) for values in self._read_rows("image"))

    def captions(self) -> Iterator[CaptionRow]:
        """Yield the catalog rows of all captions."""
        return (CaptionRow._make(values) for values in self._read_rows("caption"))

    def discard(self) -> None:
        """Forget everything: the next build starts anew."""
        self.close()
        durable.remove(self.folder)

    def close(self) -> None:
        """Close the files; the next `Staging` of the same build goes on with them."""
        for writer in self._growing.values():
            writer.abandon()
        for file in self._rows.values():
            file.close()
        self._growing, self._rows = {}, {}

    def _place(self, kind: Kind, record: SegmentRecord) -> Path:
        """Return the folder of a sealed segment."""
        place = self.folder.parent / SEGMENTS_FOLDER / record.name
        # Killed after the journal named it and before it moved there.
        return place if place.exists() else self.folder / kind

    def _goes_on(self) -> bool:
        """Open what the journal names; False where it is not there as it was written."""
        try:
            for kind, part in self._parts.items():
                for record in part.sealed:
                    Segment.open(self._place(kind, record), record)
                if part.rows:
                    writer = self._writer(kind)
                    if (writer.rows, writer.crc) != (part.rows, part.grown):
                        return False
                file = self._row_file(kind)
                file.seek(0)
                if durable.cut(file, part.bytes) != (part.bytes, part.crc):
                    return False
        except (DamagedIndexError, ValueError, TypeError, *_MISPLACED):
            return False
        return True

    @contextmanager
    def _discarded_if_bad(self) -> Iterator[None]:
        # Rows that do not fit together will be others when the build is repeated: what is finished
        # of them would only be in the way.
        try:
            yield
        except BadRowsError:
            self.discard()
            raise

    def _writer(self, kind: Kind) -> SegmentWriter:
        if kind not in self._growing:
            rows = self._parts[kind].rows
            if not rows:
                durable.remove(self.folder / kind)
            self._growing[kind] = SegmentWriter(
                self.folder / kind, kind, self.model.dimension, self.model.score, rows
            )
        return self._growing[kind]

    def _row_file(self, kind: Kind) -> IO[bytes]:
        if kind not in self._rows:
            self._rows[kind] = (self.folder / f"{kind}.jsonl").open("a+b")
        return self._rows[kind]

    def _seal(self, kind: Kind) -> None:
        part = self._parts[kind]
        with self._discarded_if_bad():
            record = self._growing.pop(kind).seal()
        durable.settle([self.folder / kind])
        part.sealed.append(record)
        part.rows, part.grown = 0, [0, 0]
        self._write_journal()
        self._publish((self.folder / kind, record))

    def _read_rows(self, kind: Kind) -> Iterator[list[Any]]:
        if self._parts[kind].bytes:
            with (self.folder / f"{kind}.jsonl").open("rb") as file:
                while file.tell() < self._parts[kind].bytes:
                    yield json.loads(file.readline())

    def _ids(self, kind: Kind) -> Ids:
        segments = self.folder.parent / SEGMENTS_FOLDER
        found = [
            np.load(segments / record.name / IDS, allow_pickle=False)
            for record in self._parts[kind].sealed
        ]
        return np.concatenate(found) if found else np.empty(0, np.int64)

    def _check_ids(self) -> None:
        images = self._ids("image")
        for kind, ids in (("image", images), ("caption", self._ids("caption"))):
            if (twice := first_duplicate(ids)) is not None:
                raise BadRowsError(f"{kind} {twice} occurs twice: give every {kind} its own id")
        images.sort()
        for caption in self.captions():
            at = int(np.searchsorted(images, caption.image_id))
            if at == len(images) or images[at] != caption.image_id:
                raise BadRowsError(
                    f"caption {caption.id} is of image {caption.image_id}, which is not among "
                    "the images: add the image or leave the caption out"
                )

    def _write_journal(self) -> None:
        document = self._identity | {
            kind: {
                "sealed": [asdict(record) for record in part.sealed],
                "rows": part.rows,
                "grown": part.grown,
                "bytes": part.bytes,
                "crc": part.crc,
            }
            for kind, part in self._parts.items()
        }
        durable.write_file(self.folder / JOURNAL, json.dumps(document).encode("utf-8"))


def refuse_unfinished(folder: Path, generation: int) -> None:
    """Refuse an index of which no generation is visible because its build has not ended.

    Raises:
        UnfinishedIndexError: it has not.
    """
    if generation == 0 and (folder / STAGING).is_dir():
        raise UnfinishedIndexError(
            f"the build of {folder} has not ended, so it holds nothing to search: wait for it, or "
            "if it was stopped run the same 'hasse index build' again, which goes on from there"
        )


def staged_names(folder: Path) -> set[str]:
    """Return the names of the sealed segments that an unfinished build still needs."""
    parts = _journal(folder / STAGING, None)
    if parts is None:
        return set()
    return {record.name for part in parts.values() for record in part.sealed}


def _journal(folder: Path, identity: dict[str, Any] | None) -> dict[Kind, _Part] | None:
    try:
        document = json.loads((folder / JOURNAL).read_bytes())
        if identity is not None and any(document[key] != identity[key] for key in identity):
            return None
        return {
            kind: _Part(
                [_record(sealed) for sealed in document[kind]["sealed"]],
                _count(document[kind]["rows"]),
                document[kind]["grown"],
                _count(document[kind]["bytes"]),
                document[kind]["crc"],
            )
            for kind in KINDS
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _count(number: Any) -> int:
    if not isinstance(number, int) or number < 0:
        raise ValueError(number)
    return number


def _record(facts: dict[str, Any]) -> SegmentRecord:
    return SegmentRecord(files=file_records(facts.pop("files")), **facts)
