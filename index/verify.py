"""Check a whole index; each finding names the file and the remedy."""

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
from hasse.index.catalog.validation import checked, checked_ids, first_duplicate
from hasse.index.creation import open_catalog
from hasse.index.errors import BadPointsError, BadRowsError, DamagedIndexError
from hasse.index.segments import stored_pictures
from hasse.index.segments.compaction import ProgressCallback
from hasse.index.segments.leases import Lease
from hasse.index.segments.leases import lease as leased
from hasse.index.segments.loading import check_fit
from hasse.index.segments.segment import SEGMENTS_FOLDER, Segment, check_file
from hasse.index.segments.staging import refuse_unfinished
from hasse.index.types import KINDS, Ids, Kind

_ROWS = 8192  # checked at a time, for bounded memory


@dataclass(frozen=True, slots=True)
class Verification:
    """The checked parts of an index, and a sentence for each finding."""

    folder: Path
    generation: int
    segments: int
    rows: int
    bytes: int
    findings: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """True when nothing is wrong."""
        return not self.findings


def verify(folder: Path, *, progress: ProgressCallback = lambda done, total: None) -> Verification:
    """Read the whole index: every file, every row of the catalog, every point.

    `progress` is called with the bytes checked and all of them. An index may be served and
    written meanwhile.

    Raises:
        MissingIndexError, NotAnIndexError, FormatVersionError: there is nothing to check.
        UnfinishedIndexError: its build has not ended.
        DamagedIndexError: the catalog cannot be read at all.
    """
    with closing(open_catalog(folder)) as catalog:
        return _verified(folder, catalog, progress)


def changed_pictures(
    folder: Path, *, progress: ProgressCallback = lambda done, total: None
) -> tuple[str, ...]:
    """Return a sentence for each file of an image that is missing or has other bytes than before.

    Reads every picture that lies outside the index. `progress` is called with the number of files
    read and all of them.
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
            elif (known := sha256.get(row.image_id)) and durable.sha256(path) != known:
                faults.append(f"{path} is no longer the picture of image {row.image_id}")
        except OSError as error:
            faults.append(f"{path} of image {row.image_id} cannot be read: {error.strerror}")
        progress(at, len(rows))
    return tuple(faults)


def _verified(folder: Path, catalog: Catalog, progress: ProgressCallback) -> Verification:
    lease, state, known = _one_generation(folder, catalog)
    try:
        refuse_unfinished(folder, state.generation)
        findings = [_damage(f"{catalog.url.database}: {what}") for what in damaged_rows(catalog)]
        findings += _text_faults(catalog)
        findings += stored_pictures.faults(folder, catalog)
        total = sum(record.bytes for record in state.segments)
        done = 0

        def count(read: int) -> None:
            nonlocal done
            done += read
            progress(done, total)

        stored_ids: dict[Kind, list[Ids]] = {kind: [] for kind in KINDS}
        whole = set(KINDS)
        for record in state.segments:
            ids, faults = _checked(folder / SEGMENTS_FOLDER / record.name, record, state, count)
            if ids is None:
                whole.discard(record.kind)
            else:
                stored_ids[record.kind].append(ids)
            findings += faults
        for kind in KINDS:
            # The rows of a damaged segment are unknown, and the damage is a finding already.
            if kind in whole:
                findings += _disagreements(catalog, kind, stored_ids[kind], known[kind])
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
        outdated = documents.outdated(connection)
    if outdated:
        yield (
            f"{catalog.url.database}: the text index does not hold what {outdated:,} images say: "
            "make it anew with 'hasse lab index text'"
        )


def _one_generation(folder: Path, catalog: Catalog) -> tuple[Lease, State, dict[Kind, Ids]]:
    """Read a generation and the ids that the catalog describes in it, and keep its folders."""
    while True:
        lease = leased(folder, catalog, catalog.generation())
        state = catalog.state()
        known: dict[Kind, Ids] = {}
        with catalog.reading() as connection:
            for kind in KINDS:
                table = IMAGES if kind == "image" else CAPTIONS
                ids = connection.execute(sql.select(table.c.id)).scalars()
                try:
                    known[kind] = np.fromiter(ids, np.int64)
                except (TypeError, ValueError, OverflowError) as error:
                    raise DamagedIndexError(
                        f"{catalog.url.database}: the ids of {kind}s are no numbers ({error})"
                    ) from error
        if lease.generation == state.generation == catalog.generation():
            return lease, state, known
        lease.release()


def _checked(
    place: Path, record: SegmentRecord, state: State, count: Callable[[int], None]
) -> tuple[Ids | None, list[str]]:
    """Check a segment; return the ids that a search sees, None if it is damaged, and its faults.

    `count` gets the number of bytes of each file.
    """
    faults: list[str] = []
    for name, file in record.files.items():
        try:
            check_file(place / name, file, "checksums")
        except DamagedIndexError as error:
            faults.append(str(error))
        count(file.bytes)
    if faults:
        return None, faults
    try:
        return _checked_ids(place, record, state), []
    except (DamagedIndexError, BadPointsError, BadRowsError) as error:
        return None, [f"{place}: {error}"]


def _checked_ids(place: Path, record: SegmentRecord, state: State) -> Ids:
    """Check what a segment holds and return the ids that a search sees."""
    check_fit(place.parent.parent, record, state.model)
    segment = Segment.open(place, record, "sizes")
    ids = checked_ids(record.kind, segment.ids)
    with segment.read_in_order():
        for at in range(0, segment.rows, _ROWS):
            part = slice(at, at + _ROWS)
            checked(
                record.kind, ids[part], segment.points[part], record.dimension, record.score, at
            )
    gone = [
        deletion.id
        for deletion in state.deleted
        if deletion.kind == record.kind and deletion.generation > record.generation
    ]
    return np.asarray(ids[~np.isin(ids, gone)])


def _disagreements(catalog: Catalog, kind: Kind, parts: list[Ids], known: Ids) -> Iterator[str]:
    """Compare the ids that searches return with those the catalog describes."""
    stored = np.concatenate(parts) if parts else np.empty(0, np.int64)
    for ids, what in (
        (np.setdiff1d(stored, known), "is in a segment and not in the catalog"),
        (np.setdiff1d(known, stored), "is in the catalog and in no segment"),
    ):
        if len(ids):
            more = f" (and {len(ids) - 1:,} more)" if len(ids) > 1 else ""
            yield _damage(f"{catalog.url.database}: {kind} {ids[0]}{more} {what}")
    if (twice := first_duplicate(stored)) is not None:
        yield _damage(f"{catalog.url.database}: {kind} {twice} is live in two segments")


def _damage(what: str) -> str:
    """Return the sentence of a finding, with the remedy."""
    return str(DamagedIndexError(what))
