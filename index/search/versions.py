"""Versions of one picture are one hit: the largest of those that are selected.

So the k best are k pictures, pages are counted in pictures, and every proof holds over them. Which
images are versions of each other stands in the catalog (`hasse duplicates` writes it).
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
from hasse.index.catalog.schema import IMAGES, OTHERS, VERSIONS
from hasse.index.catalog.selection import Selection
from hasse.index.segments.snapshot import LiveSegment, Snapshot
from hasse.index.types import Ids

_CACHED = 16  # selections


@dataclass(frozen=True, slots=True)
class _Groups:
    """The versions of each picture, the largest first, of one generation and selection.

    Attributes:
        others: by the id of the first version, those of the others.
        firsts: by the id of each other version, that of the first.
        hidden: the ids of all others.
        masks: by the name of a segment, which of its rows are hidden.
    """

    others: dict[int, list[int]]
    firsts: dict[int, int]
    hidden: Ids
    masks: dict[str, NDArray[np.bool_]] = field(default_factory=dict)

    @classmethod
    def of(cls, pictures: Iterable[list[int]]) -> _Groups:
        """Take the versions of each picture."""
        groups = {first: others for first, *others in pictures if others}
        firsts = {id_: first for first, others in groups.items() for id_ in others}
        return cls(groups, firsts, np.array(list(firsts), np.int64))

    def mask(self, live: LiveSegment) -> NDArray[np.bool_]:
        """Return which rows (R,) of a segment are hidden."""
        name = live.segment.record.name
        if name not in self.masks:
            self.masks[name] = np.isin(live.segment.ids, self.hidden)
        return self.masks[name]


class Versions:
    """Cache of which images stand for all versions of their picture."""

    def __init__(self, folder: Path, catalog: Catalog) -> None:
        self._folder, self._catalog = folder, catalog
        self._of = lru_cache(maxsize=_CACHED)(self._read)  # by generation and selection

    def narrowed(self, snapshot: Snapshot, selection: Selection) -> Snapshot:
        """Return a snapshot, already narrowed to a selection, without all but one version each."""
        groups = self._of(snapshot.generation, selection)
        if not groups.others:
            return snapshot
        return snapshot.only(live.hiding(groups.mask(live)) for live in snapshot.of("image"))

    def same(
        self, generation: int, selection: Selection, ids: Iterable[int]
    ) -> dict[int, list[int]]:
        """Return the ids of the other versions of each of these images, the largest first."""
        others = self._of(generation, selection).others
        return {id_: others[id_] for id_ in ids if id_ in others}

    def every(
        self, generation: int, selection: Selection, ids: Iterable[int]
    ) -> dict[int, list[int]]:
        """Return all versions, the one that stands for them first, of images that have others."""
        groups = self._of(generation, selection)
        firsts = {id_: groups.firsts.get(id_, id_) for id_ in ids}
        return {
            id_: [first, *groups.others[first]]
            for id_, first in firsts.items()
            if first in groups.others
        }

    def exist(self, generation: int) -> bool:
        """Tell whether any picture has several versions."""
        return bool(self._of(generation, Selection()).others)

    def _read(self, _generation: int, selection: Selection) -> _Groups:
        several = sql.select(VERSIONS.c.picture).where(OTHERS)
        pixels = sql.func.coalesce(IMAGES.c.width * IMAGES.c.height, 0)
        rows = sql.select(VERSIONS.c.picture, VERSIONS.c.image_id).join(IMAGES)
        rows = rows.where(VERSIONS.c.picture.in_(several))
        with self._catalog.reading() as connection:
            found = connection.execute(rows.order_by(pixels.desc(), VERSIONS.c.image_id)).all()
        if found and selection != Selection():
            among = np.array([row.image_id for row in found], np.int64)
            selected = set(selection.ids(self._catalog, self._folder, "image", among).tolist())
            found = [row for row in found if row.image_id in selected]
        groups: dict[int, list[int]] = {}
        for row in found:
            groups.setdefault(row.picture, []).append(row.image_id)
        return _Groups.of(groups.values())
