"""How the pictures of a catalog are spread over folders and months."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import sqlalchemy as sql

from hasse.index.catalog.catalog import Catalog
from hasse.index.catalog.locations import Locations
from hasse.index.catalog.schema import IMAGES, PATHS

# Rows that are counted, in about a second; a larger collection has no overview.
MOST_ROWS = 300_000


@dataclass(frozen=True, slots=True)
class Overview:
    """Numbers of pictures.

    Attributes:
        folders: by folder as answers show it, ending in "/", with what lies below; in order.
        months: by month, as in "2026-11"; in order.
    """

    folders: Mapping[str, int] = field(default_factory=dict)
    months: Mapping[str, int] = field(default_factory=dict)

    @property
    def outermost(self) -> list[tuple[str, int]]:
        """The folders that lie in no other; where that is a single one, the folders in it."""
        found = self._below("")
        while len(found) == 1 and (deeper := self._below(found[0][0])):
            found = deeper
        return found

    def _below(self, folder: str) -> list[tuple[str, int]]:
        depth = folder.count("/") + 1
        each = self.folders.items()
        return [one for one in each if one[0].startswith(folder) and one[0].count("/") == depth]

    @property
    def years(self) -> list[tuple[str, int]]:
        """The numbers of years, the last first."""
        years: Counter[str] = Counter()
        for month, number in self.months.items():
            years[month[:4]] += number
        return sorted(years.items(), reverse=True)


def read_overview(catalog: Catalog, folder: Path) -> Overview:
    """Count the pictures of each folder and month; `folder` is that of the index."""
    with catalog.reading() as connection:
        rows = connection.execute(sql.select(sql.func.count()).select_from(PATHS)).scalar_one()
        if rows > MOST_ROWS:
            return Overview()
        name_of = Locations.read(connection, folder).shown()
        paths = connection.execute(sql.select(PATHS.c.path)).scalars().all()
        taken = connection.execute(
            sql.select(IMAGES.c.taken).where(IMAGES.c.taken.is_not(None))
        ).scalars()
        months = np.fromiter(taken, np.int64).astype("datetime64[ms]").astype("datetime64[M]")
    counts = Counter(above for path in paths for above in _folders_above(name_of(path) or ""))
    each, numbers = np.unique(months, return_counts=True)
    return Overview(
        dict(sorted(counts.items())),
        dict(zip(each.astype(str).tolist(), numbers.tolist(), strict=True)),
    )


def _folders_above(path: str) -> Iterator[str]:
    """Yield the folders that a file lies in, from the outermost."""
    end = path.find("/")
    while end >= 0:
        yield path[: end + 1]
        end = path.find("/", end + 1)
