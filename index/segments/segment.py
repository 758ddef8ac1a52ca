"""A segment: an immutable folder of points, ids, and the files that speed up its search.

    manifest.json    kind, rows, dimension; the size and SHA-256 of every other file
    points.npy       float32 (R, N), memory-mapped
    ids.npy          int64 (R,)
    columns.npy, levels.npy, codes.npy    lower bounds, see `hasse.index.bounds.lower_bounds`
    basis.npy, residuals.npy              instead of codes for the cosine, see `index.bounds.cosine`
    candidates.faiss                      candidates, see `hasse.index.segments.prefilter`

Only large segments get bounds and a prefilter. A prefilter is made only where it proposes better
candidates than the bounds' heaviest coordinates.
A segment is written under a temporary name, synced and renamed. Then one transaction of the catalog
makes it visible.
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
from hasse.index.catalog.validation import checked_ids, checked_points, first_duplicate
from hasse.index.errors import (
    BadPointsError,
    BadRowsError,
    ChecksumError,
    DamagedIndexError,
    TruncatedFileError,
)
from hasse.index.kernels.arrays import GrowingArray, advise_random, advise_sequential, map_array
from hasse.index.segments.cost_model import DEFAULT, Thresholds
from hasse.index.types import Ids, Kind, Orientation, Points, orientation_of
from hasse.models.score import Score

if TYPE_CHECKING:
    from hasse.index.bounds.lower_bounds import Bounds
    from hasse.index.segments.prefilter import Prefilter

SEGMENTS_FOLDER = "segments"  # in the folder of the index; holds one folder for each segment
MANIFEST = "manifest.json"
POINTS = "points.npy"
IDS = "ids.npy"
PREFILTER = "candidates.faiss"  # 0.3.0 ranked by other products in "prefilter.faiss"

Verify: TypeAlias = Literal["checksums", "later", "sizes"]

LARGE_BYTES = 64 << 20  # smaller segments are compared in a twentieth of a second
_SAMPLE = 16  # rows that are checked by `Verify` "sizes"


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
            BadPointsError, BadRowsError: a row cannot be stored; no row of the block was stored.
        """
        row_ids = checked_ids(self.kind, ids)
        rows = checked_points(self.kind, row_ids, points, self.dimension, self.score)
        self._points.append(rows)
        self._ids.append(row_ids)

    def abandon(self) -> None:
        """Close the files, unfinished."""
        self._points.abandon()
        self._ids.abandon()

    def seal(self) -> SegmentRecord:
        """Finish the folder; return its record, with the new name of the segment.

        The folder is on the disk when `durable.settle` has returned.

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
        points = map_array(self.folder / POINTS, np.float32, (self.rows, self.dimension))
        orientation = orientation_of(self.kind, self.score)
        large = points.nbytes >= self._thresholds.bounds_from_bytes
        # Imported here: most additions do not need numba, whose import takes a second.
        if large and orientation is Orientation.COSINE:
            from hasse.index.bounds.cosine import write_cosine_bounds

            step = write_cosine_bounds(self.folder, points)
            names += [BASIS, COLUMNS, LEVELS_FILE, RESIDUALS]
        elif large and self.dimension <= MAX_DIMENSION:
            from hasse.index.bounds.lower_bounds import write_bounds

            step = write_bounds(self.folder, points, orientation)
            names += [COLUMNS, LEVELS_FILE, CODES]
        can_prefilter = step is not None and orientation is not Orientation.QUERY_GENERAL
        if can_prefilter and self.rows >= self._thresholds.prefilter_from_rows:
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
    """Return the size and the SHA-256 of a finished file."""
    return FileRecord(path.stat().st_size, durable.sha256(path))


def check_file(path: Path, record: FileRecord, verify: Verify) -> None:
    """Compare a file with its record in the catalog.

    Raises:
        TruncatedFileError: the file is missing or has another size.
        ChecksumError: its contents were changed.
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
        """The number of rows, with excluded ones."""
        return self.record.rows

    def read_in_order(self) -> AbstractContextManager[None]:
        """Tell the system that all points are read in order while the block runs."""
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
        """Check every file against the record, then map the files.

        Sizes are always compared. By "checksums" the contents are compared too; by "sizes" a sample
        of the rows is validated instead; "later" is "sizes" for segments of `LARGE_BYTES` and more,
        else "checksums". With `points_only` every search scans the segment.

        Raises:
            DamagedIndexError: a file is missing, truncated or changed, or the manifest and the
                catalog disagree.
        """
        if verify == "later":
            verify = "sizes" if record.bytes >= LARGE_BYTES else "checksums"
        for name, file in record.files.items():
            # FAISS does not validate its file, so its checksum is always compared.
            check_file(folder / name, file, "checksums" if name == PREFILTER else verify)
        step = _read_step(folder / MANIFEST, record)
        shape = (record.rows, record.dimension)
        orientation = orientation_of(record.kind, record.score)
        points = map_array(folder / POINTS, np.float32, shape)
        ids = map_array(folder / IDS, np.int64, (record.rows,))
        if verify == "sizes":
            _check_sample(folder, record, ids, points)
        bounds, prefilter = None, None
        if step is not None and not points_only:
            bounds = _open_bounds(folder, step, orientation, shape)
            advise_random(points)
        if PREFILTER in record.files and not points_only:
            from hasse.index.segments.prefilter import Prefilter

            prefilter = Prefilter.open(folder / PREFILTER, points, orientation)
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
        sample_ids = checked_ids(record.kind, ids[rows])
        checked_points(record.kind, sample_ids, points[rows], record.dimension, record.score)
    except (BadPointsError, BadRowsError) as error:
        raise DamagedIndexError(f"{folder} was changed since it was written ({error})") from error


def _open_bounds(
    folder: Path, step: float, orientation: Orientation, shape: tuple[int, int]
) -> Bounds:
    # Imported here: scanned segments do not need numba, whose import takes a second.
    if orientation is Orientation.COSINE:
        from hasse.index.bounds.cosine import CosineBounds

        return CosineBounds.open(folder, step, orientation, shape)
    from hasse.index.bounds.lower_bounds import Bounds

    return Bounds.open(folder, step, orientation, shape)


def _read_step(path: Path, record: SegmentRecord) -> float | None:
    """Check the manifest against the record; return the step of the bounds, or None without any."""
    try:
        manifest = json.loads(path.read_bytes())
        files = file_records(manifest["files"])
        agrees = files == {n: f for n, f in record.files.items() if n != MANIFEST} and all(
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
