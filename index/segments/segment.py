"""A segment: an immutable folder of points and ids, with everything needed to search it.

    manifest.json    facts of the segment, and the size and SHA-256 of every other file
    points.npy       float32 (R, N), memory-mapped
    ids.npy          int64 (R,)
    columns.npy, levels.npy, codes.npy    lower bounds, see `hasse.index.bounds.lower_bounds`
    basis.npy, residuals.npy              instead of codes for the cosine, see `index.bounds.cosine`
    prefilter.faiss                       candidates, see `hasse.index.segments.prefilter`

Bounds and a prefilter are made only for segments large enough to gain from them, and a prefilter
only where the bounds' heaviest coordinates propose worse candidates.
A segment is written under a temporary name, every file and folder is synced, and it is
renamed; then one transaction of the catalog makes it visible.
"""

from __future__ import annotations

import json
import secrets
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from hasse.index import durable
from hasse.index.bounds.files import BASIS, CODES, COLUMNS, LEVELS_FILE, MAX_DIMENSION, RESIDUALS
from hasse.index.catalog.records import FileRecord, SegmentRecord, file_records
from hasse.index.catalog.validation import checked, checked_ids, first_duplicate
from hasse.index.errors import (
    BadPointsError,
    BadRowsError,
    ChecksumError,
    DamagedIndexError,
    TruncatedFileError,
)
from hasse.index.kernels.arrays import GrowingArray, advise_random, advise_sequential, mapped
from hasse.index.segments.cost_model import DEFAULT, Thresholds
from hasse.index.types import Ids, Kind, Orientation, Points, orientation_of
from hasse.models.score import Score

if TYPE_CHECKING:
    from hasse.index.bounds.lower_bounds import Bounds
    from hasse.index.segments.prefilter import Prefilter

SEGMENTS_FOLDER = "segments"  # below that of the index; each segment has one in it
MANIFEST = "manifest.json"
POINTS = "points.npy"
IDS = "ids.npy"
PREFILTER = "prefilter.faiss"

Verify: TypeAlias = Literal["checksums", "later", "sizes"]

LARGE_BYTES = 64 << 20  # of a segment's files: comparing less takes a twentieth of a second
_SAMPLE = 16  # rows


class SegmentWriter:
    """Writes the points and ids of one segment block by block, in bounded memory."""

    def __init__(
        self,
        folder: Path,
        kind: Kind,
        dimension: int,
        score: Score,
        thresholds: Thresholds = DEFAULT,
    ) -> None:
        """Start a segment in a new folder."""
        self.folder = folder
        self.kind: Kind = kind
        self.dimension = dimension
        self.score: Score = score
        self._thresholds = thresholds
        folder.mkdir(parents=True, exist_ok=True)
        self._points = GrowingArray(folder / POINTS, "<f4", (dimension,))
        try:
            self._ids = GrowingArray(folder / IDS, "<i8", ())
        except BaseException:
            self._points.abandon()
            raise

    @property
    def rows(self) -> int:
        """The number of rows so far."""
        return self._ids.rows

    def append(self, ids: ArrayLike, points: ArrayLike) -> None:
        """Add a block of rows.

        Raises:
            BadPointsError, BadRowsError: a row cannot be stored; nothing of the block was.
        """
        whole = checked_ids(self.kind, ids)
        single = checked(self.kind, whole, points, self.dimension, self.score)
        self._points.append(single)
        self._ids.append(whole)

    def abandon(self) -> None:
        """Close the files as they are."""
        self._points.abandon()
        self._ids.abandon()

    def seal(self) -> SegmentRecord:
        """Finish the folder and return its record, which gives it a new name.

        It is on the disk when `durable.settle` has returned.

        Raises:
            BadRowsError: an id occurs twice.
        """
        self._points.close()
        self._ids.close()
        ids = np.load(self.folder / IDS, mmap_mode="r", allow_pickle=False)
        if (twice := first_duplicate(ids)) is not None:
            raise BadRowsError(
                f"{self.kind} {twice} occurs twice: give every {self.kind} an id of its own"
            )
        names, step = [POINTS, IDS], None
        points = mapped(self.folder / POINTS, np.float32, (self.rows, self.dimension))
        orientation = orientation_of(self.kind, self.score)
        large = points.nbytes >= self._thresholds.bounds_from_bytes
        # Numba takes a second to import, which most additions do without.
        if large and orientation is Orientation.COSINE:
            from hasse.index.bounds.cosine import write_cosine_bounds

            step = write_cosine_bounds(self.folder, points)
            names += [BASIS, COLUMNS, LEVELS_FILE, RESIDUALS]
        elif large and self.dimension <= MAX_DIMENSION:
            from hasse.index.bounds.lower_bounds import write_bounds

            step = write_bounds(self.folder, points, orientation)
            names += [COLUMNS, LEVELS_FILE, CODES]
        prefiltered = orientation is not Orientation.QUERY_GENERAL
        if prefiltered and self.rows >= self._thresholds.prefilter_from_rows:
            from hasse.index.segments.prefilter import write_prefilter

            write_prefilter(self.folder / PREFILTER, points, orientation)
            names.append(PREFILTER)
        files = {name: file_record(self.folder / name) for name in names}
        facts: dict[str, Any] = {
            "kind": self.kind,
            "rows": self.rows,
            "dimension": self.dimension,
            "dtype": "float32",
            "score": self.score,
        }
        manifest = {
            **facts,
            "step": step,
            "files": {name: asdict(file) for name, file in files.items()},
        }
        with (self.folder / MANIFEST).open("wb") as file:
            durable.write(file, json.dumps(manifest, indent=1).encode("utf-8"))
        files[MANIFEST] = file_record(self.folder / MANIFEST)
        return SegmentRecord(name=f"{self.kind}-{secrets.token_hex(6)}", files=files, **facts)


def write_segment(
    folder: Path,
    kind: Kind,
    score: Score,
    ids: ArrayLike,
    points: ArrayLike,
    thresholds: Thresholds = DEFAULT,
) -> SegmentRecord:
    """Write one segment folder from arrays: ids (R,), points (R, N); see `SegmentWriter`."""
    writer = SegmentWriter(folder, kind, np.shape(points)[-1], score, thresholds)
    try:
        writer.append(ids, points)
        return writer.seal()
    except BaseException:
        writer.abandon()
        raise


def file_record(path: Path) -> FileRecord:
    """Measure a finished file."""
    return FileRecord(path.stat().st_size, durable.sha256(path))


def check_file(path: Path, record: FileRecord, verify: Verify) -> None:
    """Compare a file with its record in the catalog.

    Raises:
        TruncatedFileError: it is missing or has another size.
        ChecksumError: it has other contents.
    """
    if not path.is_file():
        raise TruncatedFileError(f"{path} is missing")
    size = path.stat().st_size
    if size != record.bytes:
        raise TruncatedFileError(f"{path} has {size:,} bytes and should have {record.bytes:,}")
    if verify == "checksums" and durable.sha256(path) != record.sha256:
        raise ChecksumError(f"{path} was changed since it was written")


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """An open segment. Its arrays are memory-mapped and cannot be written."""

    folder: Path
    record: SegmentRecord
    orientation: Orientation
    points: Points
    ids: Ids
    bounds: Bounds | None
    prefilter: Prefilter | None

    @property
    def rows(self) -> int:
        """The number of rows, excluded ones included."""
        return self.record.rows

    def read_in_order(self) -> AbstractContextManager[None]:
        """Read all points from the first to the last while the block runs."""
        return nullcontext() if self.bounds is None else advise_sequential(self.points)

    @classmethod
    def open(
        cls,
        folder: Path,
        record: SegmentRecord,
        verify: Verify = "checksums",
        *,
        points_only: bool = False,
    ) -> Segment:
        """Check every file against the record, then map them.

        Contents of the right size are compared with their checksum, or, by "sizes", a sample of
        the rows with what rows can be; "later" does so for segments of `LARGE_BYTES` and more. With
        `points_only` every search scans the segment.

        Raises:
            DamagedIndexError: a file is missing, truncated or changed, or the manifest and the
                catalog disagree.
        """
        if verify == "later":
            verify = "sizes" if record.bytes >= LARGE_BYTES else "checksums"
        for name, file in record.files.items():
            # FAISS does not check its file, so every byte of it is compared in any case.
            check_file(folder / name, file, "checksums" if name == PREFILTER else verify)
        step = _checked_step(folder / MANIFEST, record)
        shape = (record.rows, record.dimension)
        orientation = orientation_of(record.kind, record.score)
        points = mapped(folder / POINTS, np.float32, shape)
        ids = mapped(folder / IDS, np.int64, (record.rows,))
        if verify == "sizes":
            _check_sample(folder, record, ids, points)
        bounds, prefilter = None, None
        if step is not None and not points_only:
            bounds = _open_bounds(folder, step, orientation, shape)
            advise_random(points)
        if PREFILTER in record.files and not points_only:
            from hasse.index.segments.prefilter import Prefilter

            prefilter = Prefilter.open(folder / PREFILTER)
        return cls(
            folder,
            record,
            orientation=orientation,
            points=points,
            ids=ids,
            bounds=bounds,
            prefilter=prefilter,
        )


def _check_sample(folder: Path, record: SegmentRecord, ids: Ids, points: Points) -> None:
    rows = np.unique(np.linspace(0, record.rows - 1, _SAMPLE).astype(np.int64))
    try:
        some = checked_ids(record.kind, ids[rows])
        checked(record.kind, some, points[rows], record.dimension, record.score)
    except (BadPointsError, BadRowsError) as error:
        raise DamagedIndexError(f"{folder} was changed since it was written ({error})") from error


def _open_bounds(
    folder: Path, step: float, orientation: Orientation, shape: tuple[int, int]
) -> Bounds:
    # A segment that is scanned does without numba, which takes a second to import.
    if orientation is Orientation.COSINE:
        from hasse.index.bounds.cosine import CosineBounds

        return CosineBounds.open(folder, step, orientation, shape)
    from hasse.index.bounds.lower_bounds import Bounds

    return Bounds.open(folder, step, orientation, shape)


def _checked_step(path: Path, record: SegmentRecord) -> float | None:
    try:
        manifest = json.loads(path.read_bytes())
        listed = file_records(manifest["files"])
        agrees = listed == {n: f for n, f in record.files.items() if n != MANIFEST} and all(
            manifest[fact] == getattr(record, fact)
            for fact in ("kind", "rows", "dimension", "dtype", "score")
        )
        step: float | None = manifest["step"]
        agrees = agrees and (step is not None) == (COLUMNS in record.files)
    except (ValueError, KeyError, TypeError, AttributeError):
        agrees = False
    if not agrees:
        raise DamagedIndexError(f"{path} disagrees with the catalog")
    return step
