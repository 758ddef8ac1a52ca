"""Checks a whole index; each finding names the file and the remedy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import sqlalchemy as sql

from hasse.index import durable
from hasse.index.catalog import documents
from hasse.index.catalog.catalog import Catalog
from hasse.index.catalog.integrity import damaged_rows
from hasse.index.catalog.records import SegmentRecord, State
from hasse.index.catalog.schema import CAPTIONS, IMAGES
from hasse.index.catalog.validation import checked_ids, checked_points, first_duplicate
from hasse.index.creation import open_catalog
from hasse.index.errors import BadPointsError, BadRowsError, DamagedIndexError
from hasse.index.segments import stored_pictures
from hasse.index.segments.compaction import ProgressCallback
from hasse.index.segments.loading import check_segment_model, leased_state
from hasse.index.segments.segment import SEGMENTS_FOLDER, Segment, check_file
from hasse.index.segments.staging import refuse_unfinished
from hasse.index.types import KINDS, Ids, Kind

_ROWS = 8192  # checked at once, for bounded memory


@dataclass(frozen=True, slots=True)
class Verification:
    """Numbers of the checked parts of an index, and a sentence for each finding."""

    folder: Path
    generation: int
    segments: int
    rows: int
    bytes: int
    findings: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """True if there are no findings."""
        return not self.findings


def verify(folder: Path, *, progress: ProgressCallback = lambda done, total: None) -> Verification:
    """Check the whole index: every file, every row of the catalog, every point.

    `progress` is called with the bytes checked so far, and all of them. The index may be served and
    written at the same time.

    Raises:
        MissingIndexError, NotAnIndexError, FormatVersionError: there is nothing to check.
        UnfinishedIndexError: its build has not ended.
        DamagedIndexError: the catalog cannot be read at all.
    """
    with closing(open_catalog(folder)) as catalog:
        return _verify(folder, catalog, progress)


def changed_pictures(
    folder: Path, *, progress: ProgressCallback = lambda done, total: None
) -> tuple[str, ...]:
    """Return a sentence for each picture that is missing or was changed.

    Reads all files of all images. `progress` is called with the number of files read so far, and
    the number of all files.
    """
    with closing(open_catalog(folder)) as catalog:
        sha256, rows = catalog.sha256s(), catalog.all_paths()
        locations = catalog.locations(folder.resolve())
    faults: list[str] = []
    for at, row in enumerate(sorted(rows, key=lambda row: row.path), start=1):
        path = Path(locations.absolute(row.path))
        try:
            if not path.is_file():
                faults.append(f"{path} of image {row.image_id} is missing")
            elif (expected := sha256.get(row.image_id)) and durable.sha256(path) != expected:
                faults.append(f"{path} is no longer the picture of image {row.image_id}")
        except OSError as error:
            faults.append(f"{path} of image {row.image_id} cannot be read: {error.strerror}")
        progress(at, len(rows))
    return tuple(faults)


def _verify(folder: Path, catalog: Catalog, progress: ProgressCallback) -> Verification:
    lease, state, catalog_ids = leased_state(folder, catalog, lambda: _catalog_ids(catalog))
    try:
        refuse_unfinished(folder, state.generation)
        findings = [_damage(f"{catalog.url.database}: {row}") for row in damaged_rows(catalog)]
        findings += _text_faults(catalog)
        findings += stored_pictures.faults(folder, catalog)
        total = sum(record.bytes for record in state.segments)
        done = 0

        def count(size: int) -> None:
            nonlocal done
            done += size
            progress(done, total)

        stored_ids: dict[Kind, list[Ids]] = {kind: [] for kind in KINDS}
        intact_kinds = set(KINDS)
        for record in state.segments:
            path = folder / SEGMENTS_FOLDER / record.name
            ids, faults = _check_segment(path, record, state, count)
            if ids is None:
                intact_kinds.discard(record.kind)
            else:
                stored_ids[record.kind].append(ids)
            findings += faults
        for kind in KINDS:
            # The ids of a damaged segment are unknown, and the damage is a finding already.
            if kind in intact_kinds:
                findings += _disagreements(catalog, kind, stored_ids[kind], catalog_ids[kind])
    finally:
        lease.release()
    return Verification(
        folder,
        state.generation,
        len(state.segments),
        sum(record.rows for record in state.segments),
        total,
        tuple(findings),
    )


def _text_faults(catalog: Catalog) -> Iterator[str]:
    with catalog.reading() as connection:
        outdated = documents.count_outdated(connection)
    if outdated:
        yield (
            f"{catalog.url.database}: the text index is out of date for {outdated:,} images: "
            "rebuild it with 'hasse lab index text'"
        )


def _catalog_ids(catalog: Catalog) -> dict[Kind, Ids]:
    """Return the ids in the catalog."""
    by_kind: dict[Kind, Ids] = {}
    with catalog.reading() as connection:
        for kind in KINDS:
            table = IMAGES if kind == "image" else CAPTIONS
            ids = connection.execute(sql.select(table.c.id)).scalars()
            try:
                by_kind[kind] = np.fromiter(ids, np.int64)
            except (TypeError, ValueError, OverflowError) as error:
                raise DamagedIndexError(
                    f"{catalog.url.database}: the ids of {kind}s are not numbers ({error})"
                ) from error
    return by_kind


def _check_segment(
    folder: Path, record: SegmentRecord, state: State, count: Callable[[int], None]
) -> tuple[Ids | None, list[str]]:
    """Check a segment; return its live ids, or None if it is damaged, and its faults.

    `count` is called with the size of each file.
    """
    faults: list[str] = []
    for name, file in record.files.items():
        try:
            check_file(folder / name, file, "checksums")
        except DamagedIndexError as error:
            faults.append(str(error))
        count(file.bytes)
    if faults:
        return None, faults
    try:
        return _check_rows(folder, record, state), []
    except (DamagedIndexError, BadPointsError, BadRowsError) as error:
        return None, [f"{folder}: {error}"]


def _check_rows(folder: Path, record: SegmentRecord, state: State) -> Ids:
    """Check all ids and points of a segment; return its live ids."""
    check_segment_model(folder.parent.parent, record, state.model)
    segment = Segment.open(folder, record, "sizes")
    ids = checked_ids(record.kind, segment.ids)
    with segment.read_in_order():
        for at in range(0, segment.rows, _ROWS):
            part = slice(at, at + _ROWS)
            checked_points(
                record.kind, ids[part], segment.points[part], record.dimension, record.score, at
            )
    deleted_ids, generations = state.deleted[record.kind]
    return np.asarray(ids[~np.isin(ids, deleted_ids[generations > record.generation])])


def _disagreements(
    catalog: Catalog, kind: Kind, parts: list[Ids], catalog_ids: Ids
) -> Iterator[str]:
    """Compare the live ids of segments, `parts`, with the ids in the catalog."""
    stored = np.concatenate(parts) if parts else np.empty(0, np.int64)
    for ids, fault in (
        (np.setdiff1d(stored, catalog_ids), "is in a segment and not in the catalog"),
        (np.setdiff1d(catalog_ids, stored), "is in the catalog and in no segment"),
    ):
        if len(ids):
            more = f" (and {len(ids) - 1:,} more)" if len(ids) > 1 else ""
            yield _damage(f"{catalog.url.database}: {kind} {ids[0]}{more} {fault}")
    if (twice := first_duplicate(stored)) is not None:
        yield _damage(f"{catalog.url.database}: {kind} {twice} is live in two segments")


def _damage(fault: str) -> str:
    """Return the sentence of a finding, with the remedy."""
    return str(DamagedIndexError(fault))
