"""Follows the newest generation for the searches of this process."""

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
        """Open the visible generation; `on_load` is called with it and with each later one.

        Raises:
            FormatVersionError, DamagedIndexError: it cannot be opened.
        """
        self._folder = folder
        self._catalog = catalog
        self._on_load = on_load
        self._narrowing = Narrowing(folder, catalog)
        self.with_same = self._narrowing.with_same
        self.versions = self._narrowing.versions
        self.later_versions = self._narrowing.later_versions
        self._refreshing = threading.Lock()
        self._loader = loader
        self._notifications = Notifications(folder)
        self._seen = self._notifications.latest()  # before loading, so that no change is missed
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
        """Let the next search of each process on this machine load this process's change."""
        self._notifications.send()

    def follow(self) -> None:
        """Load the newest generation if one was announced since the last call.

        Errors are ignored: the next search tries again, and `refresh` raises them.
        """
        latest = self._notifications.latest()
        if latest != self._seen:
            with suppress(HasseIndexError, OSError):
                self.refresh()
                self._seen = latest

    def refresh(self) -> bool:
        """Load a newer generation if there is one; return whether there was.

        Without one, this costs one small query. Searches under way keep their generation.
        """
        with self._refreshing:
            if self._catalog.generation() == self.snapshot.generation:
                if self.snapshot.lease is not None:
                    self.snapshot.lease.renew()
                return False
            self.snapshot = self._loader.load(self.snapshot)
            self._on_load(self.snapshot)
            return True

    def snapshot_for(self, query: Query) -> Snapshot:
        """Return the newest generation, with all rows excluded that a query does not select."""
        self.follow()
        while True:
            narrowed = self._narrowing.narrow(self.snapshot, query)
            if narrowed is self.snapshot:
                return narrowed
            # The catalog may have been ahead of the snapshot, and another thread may have loaded
            # the newer generation first.
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
            differing = [kind for kind in KINDS if counts[kind] != snapshot.live_rows(kind)]
            if not differing:
                return
            # Another thread may have loaded the newer generation first.
            if not self.refresh() and self.snapshot is snapshot:
                raise DamagedIndexError(
                    f"{self._catalog.url.database} knows {counts[differing[0]]:,} {differing[0]}s "
                    f"and the segments hold {snapshot.live_rows(differing[0]):,}"
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
                f"not by this one ({fingerprint[:12]}): name its checkpoint"
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
        self._with_versions = -1, False  # a generation, and whether it has versions
        self._authors = -1, True, True  # a generation, and its `Catalog.authors`

    def narrow(self, snapshot: Snapshot, query: Query) -> Snapshot:
        """Return a snapshot with all rows excluded that a query does not select.

        If the catalog is ahead of the snapshot, rows that were removed since are excluded too.
        """
        kind, selection = query.kind, query.selection
        if selection is not None:
            snapshot = self._select(snapshot, kind, selection)
        if self._has_versions(query, snapshot.generation):
            snapshot = self._versions.narrow(snapshot, _for_images(selection))
        return snapshot

    def _select(self, snapshot: Snapshot, kind: Kind, selection: Selection) -> Snapshot:
        rows = replace(selection, distinct_texts=False)
        conditions = replace(rows, written=kind == "image" or self._selects_all(snapshot, rows))
        if conditions != Selection() or kind == "image":
            snapshot = self._masks.narrow(snapshot, self._catalog, kind, conditions)
        if selection.distinct_texts and kind == "caption":
            snapshot = self._distinct.narrow(snapshot, self._catalog, rows)
        return snapshot

    def _selects_all(self, snapshot: Snapshot, rows: Selection) -> bool:
        """Return whether `rows.written` selects all captions, human and generated ones."""
        if rows.written:
            return True
        cached = self._authors
        if cached[0] != snapshot.generation:
            cached = self._authors = (snapshot.generation, *self._catalog.authors())
        _, has_human, has_generated = cached
        return not has_generated or (rows.written is None and not has_human)

    def with_same(self, query: Query, answers: Sequence[Answer]) -> Sequence[Answer]:
        """Return answers with `Answer.same`: captions with the text of a hit, or other versions."""
        selection = query.selection
        if selection is not None and selection.distinct_texts and query.kind == "caption":
            same, rows = self._distinct.same, replace(selection, distinct_texts=False)
        elif answers and self._has_versions(query, answers[0].generation):
            same, rows = self._versions.same, _for_images(selection)
        else:
            return answers
        return [
            replace(answer, same=same(answer.generation, rows, answer.ids.tolist()))
            for answer in answers
        ]

    def versions(self, query: Query, generation: int, ids: Iterable[int]) -> dict[int, list[int]]:
        """Return all versions of images, if they are one hit; see `Versions.all_versions`."""
        if not self._has_versions(query, generation):
            return {}
        return self._versions.all_versions(generation, _for_images(query.selection), ids)

    def later_versions(self, query: Query, generation: int) -> list[int]:
        """Return the images that are no hits of their own; see `Versions.later`."""
        if not self._has_versions(query, generation):
            return []
        return self._versions.later(generation, _for_images(query.selection))

    def _has_versions(self, query: Query, generation: int) -> bool:
        """Return whether a query excludes versions of pictures; most collections have none."""
        if not query.distinct_pictures or query.kind == "caption":
            return False
        cached_generation, exist = self._with_versions
        if cached_generation != generation:
            exist = self._versions.exist(generation)
            self._with_versions = generation, exist
        return exist


def _for_images(selection: Selection | None) -> Selection:
    """Return the conditions of a selection on images, without those on captions."""
    return replace(selection or Selection(), distinct_texts=False, written=True)


class Notifications:
    """Notifies other processes of this machine that a change of the same index is visible.

    A process that has changed the index writes random bytes to INDEX/notifications before it
    acknowledges the change. A search compares them with those of the last search, which takes a
    microsecond, and loads the new generation if they differ. A process on another machine, or one
    that cannot read the file, polls the catalog instead.
    """

    __slots__ = ("_descriptor",)

    def __init__(self, folder: Path) -> None:
        """Open the file; create it if that is possible."""
        self._descriptor: int | None = None
        for flags in (os.O_RDWR | os.O_CREAT, os.O_RDONLY):
            with suppress(OSError):
                self._descriptor = os.open(folder / NOTIFICATIONS, flags, 0o666)
                break

    def latest(self) -> bytes:
        """Return the bytes of the last notification from any process."""
        if self._descriptor is not None:
            with suppress(OSError):
                return os.pread(self._descriptor, _BYTES, 0)
        return b""

    def send(self) -> None:
        """Notify all processes of a change, if the file can be written."""
        if self._descriptor is not None:
            with suppress(OSError):
                os.pwrite(self._descriptor, os.urandom(_BYTES), 0)

    def close(self) -> None:
        """Close the file."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)
