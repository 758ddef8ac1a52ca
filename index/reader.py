"""The generation that searches of this process use, and how a newer one is loaded."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from hasse.index.catalog.catalog import Catalog
from hasse.index.catalog.selection import Selection
from hasse.index.errors import DamagedIndexError, HasseIndexError, ModelMismatchError
from hasse.index.search.distinct import DistinctTexts
from hasse.index.search.masks import Masks
from hasse.index.search.query import Answer, Query
from hasse.index.search.versions import Versions
from hasse.index.segments.loading import Loader
from hasse.index.segments.snapshot import Snapshot
from hasse.index.types import KINDS, Kind

NOTIFICATIONS = "notifications"

_BYTES = 8


class Reader:
    """Keeps the newest generation open. Any number of threads may read `snapshot`."""

    def __init__(
        self,
        folder: Path,
        catalog: Catalog,
        loader: Loader,
        on_load: Callable[[Snapshot], None] = lambda snapshot: None,
    ) -> None:
        """Open the visible generation; `on_load` gets it and each that follows.

        Raises:
            FormatVersionError, DamagedIndexError: it cannot be opened.
        """
        self._folder = folder
        self._catalog = catalog
        self._on_load = on_load
        self._narrowing = Narrowing(folder, catalog)
        self.with_same = self._narrowing.with_same
        self.versions = self._narrowing.versions
        self._refreshing = threading.Lock()
        self._loader = loader
        self._notifications = Notifications(folder)
        self._seen = self._notifications.latest()  # before the generation that it may be about
        try:
            self.snapshot = self._loader.load()
            on_load(self.snapshot)
        except BaseException:
            self._notifications.close()
            raise

    def close(self) -> None:
        """Release the generation and close the file of notifications."""
        if self.snapshot.lease is not None:
            self.snapshot.lease.release()
        self._notifications.close()

    def announce(self) -> None:
        """Let the next search of each process on this machine load the change made here."""
        self._notifications.send()

    def follow(self) -> None:
        """Switch to the generation that was announced, if one was since this was last called.

        A generation that cannot be loaded now is left to the next search, and to `refresh`, which
        raises the reason.
        """
        latest = self._notifications.latest()
        if latest != self._seen:
            with suppress(HasseIndexError, OSError):
                self.refresh()
                self._seen = latest

    def refresh(self) -> bool:
        """Look for a newer generation and switch to it; True when there was one.

        One small query when there is none. Searches under way end on the generation they began
        with.
        """
        with self._refreshing:
            if self._catalog.generation() == self.snapshot.generation:
                if self.snapshot.lease is not None:
                    self.snapshot.lease.renew()
                return False
            self.snapshot = self._loader.load(self.snapshot)
            self._on_load(self.snapshot)
            return True

    def searched(self, query: Query) -> Snapshot:
        """Return the newest generation with all rows excluded that a query does not select."""
        self.follow()
        while True:
            narrowed = self._narrowing.narrowed(self.snapshot, query)
            if narrowed is self.snapshot:
                return narrowed
            # The catalog may have been ahead of the snapshot.
            # Another thread may have loaded the newer generation first.
            self.refresh()
            if self.snapshot.generation == narrowed.generation:
                return narrowed

    def check_counts(self) -> None:
        """Compare the rows of the catalog with those of the segments.

        Raises:
            DamagedIndexError: their numbers differ.
        """
        while True:
            snapshot, counts = self.snapshot, self._catalog.counts()
            wrong = [kind for kind in KINDS if counts[kind] != snapshot.live(kind)]
            if not wrong:
                return
            # Another thread may have loaded the newer generation first.
            if not self.refresh() and self.snapshot is snapshot:
                raise DamagedIndexError(
                    f"{self._catalog.url.database} knows {counts[wrong[0]]:,} {wrong[0]}s and the "
                    f"segments hold {snapshot.live(wrong[0]):,}"
                )

    def check_model(self, fingerprint: str | None) -> None:
        """Refuse an index whose points are not those of the model with this fingerprint.

        Raises:
            ModelMismatchError: another model made them.
        """
        model = self.snapshot.model
        if fingerprint is not None and fingerprint != model.fingerprint:
            raise ModelMismatchError(
                f"{self._folder} was made by the model '{model.name}' ({model.fingerprint[:12]}), "
                f"not by the one given ({fingerprint[:12]}): name its checkpoint"
                + (f", {model.checkpoint}," if model.checkpoint else "")
                + " or bring the library over with 'hasse use MODEL'"
            )


class Narrowing:
    """Narrows snapshots to selections, with caches of the excluded rows."""

    def __init__(self, folder: Path, catalog: Catalog) -> None:
        self._catalog = catalog
        self._masks = Masks(folder)
        self._distinct = DistinctTexts()
        self._versions = Versions(folder, catalog)
        self._with_versions = -1, False  # as of a generation
        self._authors = -1, True, True  # as of a generation; see `Catalog.authors`

    def narrowed(self, snapshot: Snapshot, query: Query) -> Snapshot:
        """Return a snapshot with all rows excluded that a query does not select.

        The catalog may be ahead of the snapshot: rows that were removed since are excluded too.
        """
        kind, selection = query.kind, query.selection
        if selection is not None:
            snapshot = self._selected(snapshot, kind, selection)
        if self._has_versions(query, snapshot.generation):
            snapshot = self._versions.narrowed(snapshot, _images(selection))
        return snapshot

    def _selected(self, snapshot: Snapshot, kind: Kind, selection: Selection) -> Snapshot:
        rows = replace(selection, distinct_texts=False)
        chosen = replace(rows, written=kind == "image" or self._selects_written(snapshot, rows))
        if chosen != Selection() or kind == "image":
            snapshot = self._masks.narrowed(snapshot, self._catalog, kind, chosen)
        if selection.distinct_texts and kind == "caption":
            snapshot = self._distinct.narrowed(snapshot, self._catalog, rows)
        return snapshot

    def _selects_written(self, snapshot: Snapshot, rows: Selection) -> bool:
        """Tell whether the captions of people and of models are all selected."""
        if rows.written:
            return True
        known = self._authors
        if known[0] != snapshot.generation:
            known = self._authors = (snapshot.generation, *self._catalog.authors())
        _, by_people, by_models = known
        return not by_models or (rows.written is None and not by_people)

    def with_same(self, query: Query, answers: Sequence[Answer]) -> Sequence[Answer]:
        """Return answers with what their hits stand for: captions that read the same, versions."""
        selection = query.selection
        if selection is not None and selection.distinct_texts and query.kind == "caption":
            same, rows = self._distinct.same, replace(selection, distinct_texts=False)
        elif answers and self._has_versions(query, answers[0].generation):
            same, rows = self._versions.same, _images(selection)
        else:
            return answers
        return [replace(one, same=same(one.generation, rows, one.ids.tolist())) for one in answers]

    def versions(self, query: Query, generation: int, ids: Iterable[int]) -> dict[int, list[int]]:
        """Return all versions of images, where they are one hit; see `Versions.every`."""
        if not self._has_versions(query, generation):
            return {}
        return self._versions.every(generation, _images(query.selection), ids)

    def _has_versions(self, query: Query, generation: int) -> bool:
        """Tell whether a query leaves out versions of pictures; most collections have none."""
        if not query.distinct_pictures or query.kind == "caption":
            return False
        known, exist = self._with_versions
        if known != generation:
            exist = self._versions.exist(generation)
            self._with_versions = generation, exist
        return exist


def _images(selection: Selection | None) -> Selection:
    """Return a selection as far as it is about images."""
    return replace(selection or Selection(), distinct_texts=False, written=True)


class Notifications:
    """Notifications of a change, for other processes of this machine that search the same index.

    A process that has changed the index, and is about to acknowledge it, writes other bytes to
    INDEX/notifications. A search compares them with those it saw last, which takes a microsecond,
    and loads the new generation where they differ. A process that cannot read the file, or is on
    another machine, finds new generations by looking for them now and then.
    """

    __slots__ = ("_descriptor",)

    def __init__(self, folder: Path) -> None:
        """Open the file, and make it where there is none and it can be made."""
        self._descriptor: int | None = None
        for flags in (os.O_RDWR | os.O_CREAT, os.O_RDONLY):
            with suppress(OSError):
                self._descriptor = os.open(folder / NOTIFICATIONS, flags, 0o666)
                break

    def latest(self) -> bytes:
        """Return the bytes of the last notification of any process."""
        if self._descriptor is not None:
            with suppress(OSError):
                return os.pread(self._descriptor, _BYTES, 0)
        return b""

    def send(self) -> None:
        """Notify all processes of a change, as far as the file can be written."""
        if self._descriptor is not None:
            with suppress(OSError):
                os.pwrite(self._descriptor, os.urandom(_BYTES), 0)

    def close(self) -> None:
        """Close the file."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)
