"""Versions of one picture are one hit: the largest selected version.

So the k best are k pictures, pages count pictures, and every proof holds over pictures.
`hasse duplicates` writes to the catalog which images are versions of each other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np
import sqlalchemy as sql
from numpy.typing import NDArray

from hasse.index.catalog.catalog import Catalog
from hasse.index.catalog.schema import IMAGES, IS_LATER_VERSION, VERSIONS
from hasse.index.catalog.selection import Selection
from hasse.index.segments.snapshot import LiveSegment, Snapshot
from hasse.index.types import Ids

_CACHED = 16  # selections


@dataclass(frozen=True, slots=True)
class _Groups:
    """The versions of each picture, the largest first, in one generation and selection.

    Attributes:
        later: ids of the later versions, by the id of the first.
        firsts: id of the first version, by the id of each later one.
        later_ids: ids of all later versions.
        masks: masks of the rows of later versions, by the name of a segment.
    """

    later: dict[int, list[int]]
    firsts: dict[int, int]
    later_ids: Ids
    masks: dict[str, NDArray[np.bool_]] = field(default_factory=dict)

    @classmethod
    def of(cls, pictures: Iterable[list[int]]) -> _Groups:
        """Make the groups from the ids of all versions of each picture, the largest first."""
        later = {first: ids for first, *ids in pictures if ids}
        firsts = {id_: first for first, ids in later.items() for id_ in ids}
        return cls(later, firsts, np.array(list(firsts), np.int64))

    def mask(self, live: LiveSegment) -> NDArray[np.bool_]:
        """Return the mask of the rows (R,) of later versions in a segment."""
        name = live.segment.record.name
        if name not in self.masks:
            self.masks[name] = np.isin(live.segment.ids, self.later_ids)
        return self.masks[name]


class Versions:
    """Cache of the versions of each picture."""

    def __init__(self, folder: Path, catalog: Catalog) -> None:
        self._folder, self._catalog = folder, catalog
        self._groups = lru_cache(maxsize=_CACHED)(self._read)  # by generation and selection

    def narrow(self, snapshot: Snapshot, selection: Selection) -> Snapshot:
        """Exclude all but one version of each picture; `selection` was already applied."""
        groups = self._groups(snapshot.generation, selection)
        if not groups.later:
            return snapshot
        return snapshot.with_segments(
            live.excluding_rows(groups.mask(live)) for live in snapshot.segments_of("image")
        )

    def same(
        self, generation: int, selection: Selection, ids: Iterable[int]
    ) -> dict[int, list[int]]:
        """Return the ids of the later versions, by the id of the first, the largest first."""
        later = self._groups(generation, selection).later
        return {id_: later[id_] for id_ in ids if id_ in later}

    def all_versions(
        self, generation: int, selection: Selection, ids: Iterable[int]
    ) -> dict[int, list[int]]:
        """Return all versions of images that have several, the hit of a search first."""
        groups = self._groups(generation, selection)
        firsts = {id_: groups.firsts.get(id_, id_) for id_ in ids}
        return {
            id_: [first, *groups.later[first]]
            for id_, first in firsts.items()
            if first in groups.later
        }

    def later(self, generation: int, selection: Selection) -> list[int]:
        """Return the ids of all images that are later versions of others."""
        return list(self._groups(generation, selection).firsts)

    def exist(self, generation: int) -> bool:
        """Return whether any picture has several versions."""
        return bool(self.later(generation, Selection()))

    def _read(self, _generation: int, selection: Selection) -> _Groups:
        several = sql.select(VERSIONS.c.picture).where(IS_LATER_VERSION)
        pixels = sql.func.coalesce(IMAGES.c.width * IMAGES.c.height, 0)
        rows = sql.select(VERSIONS.c.picture, VERSIONS.c.image_id).join(IMAGES)
        rows = rows.where(VERSIONS.c.picture.in_(several))
        statement = rows.order_by(pixels.desc(), VERSIONS.c.image_id)
        with self._catalog.reading() as connection:
            versions = connection.execute(statement).all()
        if versions and selection != Selection():
            among = np.array([row.image_id for row in versions], np.int64)
            selected = set(selection.ids(self._catalog, self._folder, "image", among).tolist())
            versions = [row for row in versions if row.image_id in selected]
        pictures: dict[int, list[int]] = {}
        for row in versions:
            pictures.setdefault(row.picture, []).append(row.image_id)
        return _Groups.of(pictures.values())
