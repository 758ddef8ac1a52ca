"""An index on disk: open it, search it, add to it, remove from it.

INDEX/catalog.db          images, captions, segments, and the visible generation
INDEX/catalog.url         where the catalog is, if it is not that file
INDEX/segments/<name>/    immutable points, see `hasse.index.segments.segment`
INDEX/pictures/           pictures that came by the service, see `index.segments.stored_pictures`
INDEX/staging/            a build that has not ended, see `index.segments.staging`
INDEX/compaction/         a merge under way, see `hasse.index.segments.compaction`
INDEX/lock                held by the one writer
INDEX/generation          the newest generation allowed, see `index.catalog.generation_file`
INDEX/readers             which generations are being read, see `hasse.index.segments.leases`
INDEX/notifications       that there is a change, see `index.reader`
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike

from hasse.index.catalog.catalog import Catalog
from hasse.index.catalog.database import catalog_url
from hasse.index.catalog.locations import Locations
from hasse.index.catalog.lookups import without_ids
from hasse.index.catalog.selection import Selection
from hasse.index.catalog.validation import checked_ids
from hasse.index.creation import create_index, open_catalog
from hasse.index.errors import BadQueryError, IndexLockedError, MissingGpuExtraError, NotLoadedError
from hasse.index.info import IndexInfo, describe
from hasse.index.kernels.arrays import release_memory
from hasse.index.kernels.threads import Workers
from hasse.index.reader import Reader
from hasse.index.search.plain import MAX_BYTES, PlainSearch
from hasse.index.search.query import Answer, Query, checked_queries
from hasse.index.segments import compaction
from hasse.index.segments.change import Change
from hasse.index.segments.compaction import Choice, CompactionResult, ProgressCallback, tiers
from hasse.index.segments.cost_model import DEFAULT, Thresholds
from hasse.index.segments.loading import Loader
from hasse.index.segments.segment import Verify
from hasse.index.segments.snapshot import Snapshot
from hasse.index.segments.staging import refuse_unfinished
from hasse.index.segments.writer import LOCK_TIMEOUT, Writer, writing
from hasse.index.types import (
    CaptionRow,
    ImageRow,
    Kind,
    ModelIdentity,
    Points,
    orientation_of,
)

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection

    from hasse.index.search.gpu_scan import Accelerator
    from hasse.index.search.search import CompiledSearch


class Index:
    """A searchable collection. Any number of threads may search while one writes.

    Attributes:
        locations: where files of the generation lie.
    """

    locations: Locations

    def __init__(
        self,
        folder: Path,
        catalog: Catalog,
        verify: Verify = "checksums",
        threads: int | None = None,
        device: str = "cpu",
        thresholds: Thresholds = DEFAULT,
        loader: Loader | None = None,
        *,
        one_off: bool = False,
    ) -> None:
        plain = one_off and _is_quick(catalog)
        self.folder = folder
        self.catalog = catalog
        self._thresholds = thresholds
        self._workers = Workers(threads)
        self._writing = threading.Lock()
        self._plain = PlainSearch() if plain else None
        self._accelerator = None if plain else _accelerator(device)
        loader = loader or Loader(folder, catalog, verify, points_only=plain)
        self._reader = Reader(folder, catalog, loader, self._loaded)

    @classmethod
    def create(
        cls,
        folder: Path,
        model: ModelIdentity,
        *,
        threads: int | None = None,
        thresholds: Thresholds = DEFAULT,
    ) -> Index:
        """Make an empty index in a folder that holds nothing yet, but perhaps `catalog.url`.

        Raises:
            IndexExistsError: there is an index already.
            NotAnIndexError: other files have the names of parts of an index.
            DiskFullError: there is no room.
        """
        folder = folder.resolve()
        catalog = Catalog(catalog_url(folder))
        try:
            create_index(folder, catalog, model)
            return cls(folder, catalog, threads=threads, thresholds=thresholds)
        except BaseException:
            catalog.close()
            raise

    @classmethod
    def open(
        cls,
        folder: Path,
        fingerprint: str | None = None,
        *,
        verify: Verify = "checksums",
        threads: int | None = None,
        device: str = "cpu",
        thresholds: Thresholds = DEFAULT,
        one_off: bool = False,
    ) -> Index:
        """Open an index for searching and writing.

        `fingerprint` is that of the model which will encode the queries. `verify="checksums"`
        reads every file once (about 1 to 2 GB/s); `"sizes"` trusts contents of the right size,
        but for a sample and what FAISS reads; `"later"` does so where they are large, and leaves
        them, and `check_counts`, to a thread (`index.segments.file_checks`). `threads` run the
        kernels; the default is one for each core. On a `device` such as "cuda", large segments that
        fit into its memory are scanned there. `thresholds` decide which segments are large.
        `one_off` is for a process that searches once: an index that is not large is scanned in
        numpy, which is ready a second sooner.

        Raises:
            MissingGpuExtraError: `device` is a GPU, and torch or triton is not installed.
            MissingIndexError, NotAnIndexError, FormatVersionError: there is nothing to open.
            UnfinishedIndexError: its build has not ended.
            ModelMismatchError: another model made it.
            DamagedIndexError: a file disagrees with the catalog.
        """
        folder = folder.resolve()
        catalog = open_catalog(folder)
        with ExitStack() as on_failure:
            on_failure.callback(catalog.close)
            refuse_unfinished(folder, catalog.generation())
            index = cls(folder, catalog, verify, threads, device, thresholds, one_off=one_off)
            on_failure.callback(index.close)
            if verify != "later":
                index.check_counts()
            index._reader.check_model(fingerprint)
            on_failure.pop_all()
        return index

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the catalog and the generation, and end the threads."""
        self._reader.close()
        self.catalog.close()
        self._workers.close()

    @property
    def model(self) -> ModelIdentity:
        """The model that made the points."""
        return self.snapshot.model

    @property
    def snapshot(self) -> Snapshot:
        """The generation that the next search uses, unless a change is announced before."""
        return self._reader.snapshot

    @property
    def generation(self) -> int:
        """The generation of `snapshot`."""
        return self.snapshot.generation

    def announce(self) -> None:
        """Let the next search of each process on this machine load the change made here.

        Without it they load it when they `refresh`: announce changes that are quick to load.
        """
        self._reader.announce()

    def check_counts(self) -> None:
        """Compare the rows of the catalog with those of the segments (DamagedIndexError)."""
        self._reader.check_counts()

    def require_model(self, fingerprint: str) -> None:
        """Refuse points of another model than that of this index (ModelMismatchError)."""
        self._reader.check_model(fingerprint)

    def refresh(self) -> bool:
        """Look for a newer generation and switch to it; True when there was one.

        Raises:
            ModelMismatchError: it has the points of another model.
            DamagedIndexError, CatalogUnreachableError: it cannot be loaded now.
        """
        return self._reader.refresh()

    def search(self, query: Query, point: ArrayLike) -> Answer:
        """Return the rows with the smallest violation with one point (N,); see `search_batch`."""
        (answer,) = self.search_batch(query, np.asarray(point)[None])
        return answer

    def search_batch(self, query: Query, points: ArrayLike) -> Sequence[Answer]:
        """Answer each of `points` (B, N): bit for bit what `search` answers, one by one.

        Raises:
            BadQueryError: a point is out of range.
        """
        snapshot = self._reader.snapshot_for(query)
        queries = checked_queries(points, snapshot.model)
        return self._reader.with_same(query, self._search.answers(snapshot, queries, query))

    def search_jointly(self, query: Query, parts: ArrayLike) -> Answer:
        """Return the rows whose worst violation over `parts` is smallest.

        `parts` are points (P, N), at least one: captions for the images that all of them are true
        of, images for the captions that are true of all of them.

        Raises:
            BadQueryError: a point is out of range, or there are no parts.
        """
        snapshot = self._reader.snapshot_for(query)
        queries = checked_queries(parts, snapshot.model)
        if not len(queries):
            raise BadQueryError("there are no parts to search by: give at least one")
        answer = self._search.joint_answer(snapshot, queries, query)
        return self._reader.with_same(query, [answer])[0]

    def versions(self, query: Query, image_ids: Iterable[int]) -> dict[int, list[int]]:
        """Return all versions of images that have others, where these are one hit of a query.

        The one that stands for them comes first, and then the largest.
        """
        return self._reader.versions(query, self.generation, image_ids)

    def listed(self, query: Query, connection: Connection) -> list[ColumnElement[bool]]:
        """Return the SQL conditions on the images that a query selects, each picture once."""
        conditions = (query.selection or Selection()).conditions(connection, self.folder)
        later = self._reader.later_versions(query, self.generation)
        return [*conditions, without_ids(later)] if later else conditions

    def violations(self, image_ids: Sequence[int], point: Points) -> dict[int, np.float32]:
        """Return the violations of those of some images that there are with a caption's point (N,).

        They are float32, those of a search bit for bit.
        """
        stored = self.points("image", image_ids)
        if not stored:
            return {}
        (query,) = checked_queries(point[None], self.model)
        rows = np.stack(list(stored.values()))
        scored = self._search.violations(rows, query, self._orientation)
        return dict(zip(stored, scored, strict=True))

    def points(self, kind: Kind, ids: Sequence[int]) -> dict[int, Points]:
        """Return the stored points (N,) of those of `ids` that there are, by id."""
        self._reader.follow()
        return self.snapshot.points(kind, ids)

    def path_of(self, image: ImageRow) -> Path:
        """Return where the picture of an image is."""
        return Path(self.locations.absolute(image.path))

    def release_memory(self) -> None:
        """Return the memory of points that were read to the system.

        A certified search reads the codes and few points. But the system maps each point with its
        neighbours, so that in time all of them would count as memory of this process.
        """
        for live in self.snapshot.segments:
            if live.segment.bounds is not None:
                release_memory(live.segment.points)

    def info(self) -> IndexInfo:
        """Describe the index."""
        return describe(self.folder, self.snapshot, self._thresholds.costs)

    def add(
        self,
        images: Sequence[ImageRow],
        image_points: ArrayLike,
        captions: Sequence[CaptionRow] = (),
        caption_points: ArrayLike | None = None,
        *,
        timeout: float = LOCK_TIMEOUT,
    ) -> int:
        """Add images and captions; durable and visible to the next search when it returns.

        image_points (R, N), caption_points (S, N), in the order of their rows. Other writers are
        waited for `timeout` seconds. Returns the new generation.

        Raises:
            BadRowsError: an id is taken, or a caption's image is not there.
            BadPointsError: a point cannot be stored; the message names the row.
            DiskFullError, IndexLockedError: nothing was changed.
            NotLoadedError: it was changed durably; searches see it from the next `refresh` on.
        """
        change = Change(images, image_points, captions, caption_points)
        return self.change(change, timeout=timeout)

    def change(self, change: Change, *, timeout: float = LOCK_TIMEOUT) -> int:
        """Add, replace and remove at once; durable and visible to the next search.

        Raises:
            Exception: as `add` and `remove`.
        """
        with self.writing(timeout) as writer:
            return writer.change(change)

    def remove(self, image_ids: Sequence[int], *, timeout: float = LOCK_TIMEOUT) -> int:
        """Remove images and their captions; durable and gone from the next search.

        Other writers are waited for `timeout` seconds. Returns the new generation.

        Raises:
            BadRowsError: there is no such image.
            DiskFullError, IndexLockedError: nothing was changed.
            NotLoadedError: it was changed durably; searches see it from the next `refresh` on.
        """
        ids: list[int] = checked_ids("image", image_ids).tolist()
        return self.change(Change(removed_by_name=ids), timeout=timeout)

    def forget_kept_texts(self) -> None:
        """Forget what people gave to pictures that are gone; raises as `remove`."""
        with self.writing() as writer:
            writer.forget_kept_texts()

    def compact(
        self, choose: Choice = tiers, progress: ProgressCallback = lambda done, total: None
    ) -> CompactionResult:
        """Merge the segments that `choose` names, dropping removed rows; searches go on meanwhile.

        `tiers` keeps searches quick at little cost and may be called after any change;
        `everything` leaves as few segments as can be. Every merged segment is durable and visible
        before the next is begun. `progress` is called with the rows merged and all of them.

        Raises:
            IndexLockedError: another process is compacting.
            DamagedIndexError: a segment was changed since it was written.
            DiskFullError: segments that were not merged yet stay as they are.
            NotLoadedError: the merge is durable; searches use it from the next `refresh` on.
        """
        of = (self.folder, self.catalog, self._newest, self.writing)
        return compaction.compact(*of, choose, progress, self._thresholds)

    @cached_property
    def _search(self) -> PlainSearch | CompiledSearch:
        if self._plain is not None:
            return self._plain
        # Numba takes longer to import than most commands take.
        from hasse.index.search.search import CompiledSearch

        return CompiledSearch(self._workers, self._thresholds.costs, self._accelerator)

    @contextmanager
    def writing(self, timeout: float = LOCK_TIMEOUT) -> Iterator[Writer]:
        """Be the one writer; when the block ends, the next search sees its commits.

        `timeout` seconds are waited for other threads and other processes together.

        Raises:
            IndexLockedError: another writer held the lock.
            ModelMismatchError: the index was re-encoded since it was opened.
            NotLoadedError: the commit stands; the next `refresh` loads it.
        """
        deadline = time.monotonic() + timeout
        if not self._writing.acquire(timeout=timeout):
            raise IndexLockedError(
                f"another thread is writing to the index {self.folder}: wait for it to end, and "
                "repeat"
            )
        try:
            left = max(0.0, deadline - time.monotonic())
            with writing(self.folder, self.catalog, self.model, left, self._thresholds) as writer:
                yield writer
            try:
                self.refresh()
            except Exception as error:
                raise NotLoadedError(
                    f"the change of {self.folder}, if any, is durable, and could not be loaded "
                    f"({error}): do not write it again, but open the index once that is mended"
                ) from error
        finally:
            self._writing.release()

    def _newest(self) -> Snapshot:
        self.refresh()
        return self.snapshot

    def _loaded(self, snapshot: Snapshot) -> None:
        self.locations = self.catalog.locations(self.folder)
        self._orientation = orientation_of("image", snapshot.model.score)
        if self._accelerator is not None:
            self._accelerator.keep([live.segment for live in snapshot.segments])


def _is_quick(catalog: Catalog) -> bool:
    """Tell whether the points of either kind are few enough to be scanned in numpy."""
    rows, dimension = max(catalog.counts().values()), catalog.model().dimension
    return rows * dimension * 4 <= MAX_BYTES


def _accelerator(device: str) -> Accelerator | None:
    if device == "cpu":
        return None
    # Only where there is a device is torch worth the seconds of its import.
    try:
        from hasse.index.search.gpu_scan import Accelerator
    except ModuleNotFoundError as error:
        raise MissingGpuExtraError(
            f"searching on {device} needs {error.name}, which is not installed: type "
            "pip install 'hasse-search[gpu]', or search on the CPU with HASSE_DEVICE=cpu"
        ) from error
    return Accelerator(device)
