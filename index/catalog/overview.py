"""Counts the pictures of a catalog by folder, month, camera, place and keyword."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import sqlalchemy as sql
from sqlalchemy import Connection

from hasse.index.catalog.catalog import Catalog
from hasse.index.catalog.locations import Locations
from hasse.index.catalog.schema import IMAGES, METADATA, PATHS, TEXTS
from hasse.index.catalog.selection import captioned_images

# Counting so many rows takes about a second; a larger collection has no overview.
MAX_ROWS = 300_000
_CELLS_PER_DEGREE = 10  # of latitude and longitude: pictures of one cell have one place

_MAX_KEYWORDS = 200
_KEYWORDS = (
    sql.select(TEXTS.c.text, sql.func.count())
    .where(TEXTS.c.source.in_(("keyword", "added keyword")))
    .group_by(TEXTS.c.text)
    .order_by(sql.func.count().desc(), TEXTS.c.text)
    .limit(_MAX_KEYWORDS)
)


class PlaceCount(NamedTuple):
    """A place and its number of pictures; the mean latitude and longitude are in degrees.

    `name` is "" where no picture names the place.
    """

    name: str
    latitude: float
    longitude: float
    images: int


@dataclass(frozen=True, slots=True)
class Overview:
    """Numbers of pictures.

    Attributes:
        folders: by folder as answers show it, ending in "/", with subfolders; in order of paths.
        months: by month, as in "2026-11"; in order.
        cameras: by camera, the most used first.
        places: those with most pictures first.
        captioned: pictures with human captions.
        keywords: by keyword, the most used first.
    """

    folders: Mapping[str, int] = field(default_factory=dict)
    months: Mapping[str, int] = field(default_factory=dict)
    cameras: Mapping[str, int] = field(default_factory=dict)
    places: Sequence[PlaceCount] = ()
    captioned: int = 0
    keywords: Mapping[str, int] = field(default_factory=dict)

    @property
    def outermost(self) -> list[tuple[str, int]]:
        """The outermost folders; as long as there is only one, its subfolders."""
        folders = self.subfolders("")
        while len(folders) == 1 and (deeper := self.subfolders(folders[0][0])):
            folders = deeper
        return folders

    def subfolders(self, folder: str) -> list[tuple[str, int]]:
        """The folders directly in `folder`; "" for the outermost."""
        depth = folder.count("/") + 1
        return [
            (path, images)
            for path, images in self.folders.items()
            if path.startswith(folder) and path.count("/") == depth
        ]

    @property
    def years(self) -> list[tuple[str, int]]:
        """Numbers of pictures by year, the latest year first."""
        years: Counter[str] = Counter()
        for month, number in self.months.items():
            years[month[:4]] += number
        return sorted(years.items(), reverse=True)


def read_overview(catalog: Catalog, folder: Path) -> Overview:
    """Count the pictures of each folder and month; `folder` is that of the index."""
    with catalog.reading() as connection:
        rows = connection.execute(sql.select(sql.func.count()).select_from(PATHS)).scalar_one()
        if rows > MAX_ROWS:
            return Overview()
        paths = connection.execute(sql.select(PATHS.c.path)).scalars().all()
        shown_paths = Locations.read(connection, folder).shown_paths(paths)
        dates = connection.execute(
            sql.select(IMAGES.c.taken).where(IMAGES.c.taken.is_not(None))
        ).scalars()
        months = np.fromiter(dates, np.int64).astype("datetime64[ms]").astype("datetime64[M]")
        cameras = connection.execute(
            sql.select(METADATA.c.camera).where(METADATA.c.camera != "")
        ).scalars()
        camera_counts = Counter(cameras)
        places = _places(connection)
        captioned = captioned_images().subquery().c.image_id
        keywords = connection.execute(_KEYWORDS).all()
        captioned_count = connection.execute(sql.select(sql.func.count(captioned.distinct())))
    folders = (_folders_above(shown_paths[path] or "") for path in paths)
    counts = Counter(chain.from_iterable(folders))
    unique_months, month_counts = np.unique(months, return_counts=True)
    return Overview(
        dict(sorted(counts.items())),
        dict(zip(unique_months.astype(str).tolist(), month_counts.tolist(), strict=True)),
        dict(camera_counts.most_common()),
        places,
        captioned_count.scalar_one(),
        {row[0]: row[1] for row in keywords},
    )


def _places(connection: Connection) -> list[PlaceCount]:
    """Return the places of pictures, each with the name that most of its pictures have."""
    of = METADATA.c
    name = sql.select(TEXTS.c.text).where(TEXTS.c.image_id == of.image_id)
    name = name.where(TEXTS.c.source == "place").order_by(TEXTS.c.position).limit(1)
    rows = sql.select(of.latitude, of.longitude, name.correlate(METADATA).scalar_subquery())
    cells: defaultdict[tuple[int, int], list[tuple[float, float, str]]] = defaultdict(list)
    for latitude, longitude, text in connection.execute(rows.where(of.latitude.is_not(None))):
        cell = round(latitude * _CELLS_PER_DEGREE), round(longitude * _CELLS_PER_DEGREE)
        cells[cell].append((latitude, longitude, text or ""))
    places = []
    for pictures in cells.values():
        latitudes, longitudes, names = zip(*pictures, strict=True)
        ((text, _),) = Counter(names).most_common(1)
        places.append(
            PlaceCount(text, float(np.mean(latitudes)), float(np.mean(longitudes)), len(pictures))
        )
    return sorted(places, key=lambda place: -place.images)


def _folders_above(path: str) -> Iterator[str]:
    """Yield the folders above a file, from the outermost."""
    end = path.find("/")
    while end >= 0:
        yield path[: end + 1]
        end = path.find("/", end + 1)
