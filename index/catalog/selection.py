"""Searches over part of a collection: by split, id, folder, time of addition, date of the picture.

A selection excludes rows from one search. So every kernel, bound and proof takes it as
it takes deletions, and the answer is the exact top k of what was selected.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import cos, pi, radians, sin
from pathlib import Path

import numpy as np
import sqlalchemy as sql
from sqlalchemy import Connection

from hasse.index.catalog.catalog import Catalog
from hasse.index.catalog.locations import Locations
from hasse.index.catalog.schema import CAPTIONS, IDS_PER_STATEMENT, IMAGES, METADATA, WRITTEN
from hasse.index.catalog.text_search import saying
from hasse.index.catalog.validation import fault_of
from hasse.index.errors import BadQueryError
from hasse.index.types import Ids, Kind

_NUMBERS = 1 << 63  # exclusive upper bound of SQL BIGINT
_EARTH_KILOMETRES = 6371.0088  # mean radius


@dataclass(frozen=True, slots=True)
class Selection:
    """Which images a search is about; a caption is selected with its image.

    What is None selects all. Times are milliseconds since 1970: from `..._from` on, and before
    `..._before`. `path_prefix` is what a path begins with: the path relative to the followed folder
    that the file lies in (the file name, where it lies in none), or the absolute path, with
    `absolute_paths`. A picture without a date is in no range of dates. Of captions that read the
    same, `distinct_texts` selects one; see `index.search.distinct`. Of captions that a model wrote,
    `written` selects all, none, or with None all where there are none of people. `has_captions` is
    about captions of people. `camera` is a part of its name, `rating` the least. `near` is a
    latitude, a longitude and a radius in kilometres. What a selected image says holds each text of
    `said` and none of `unsaid`, as it stands.
    """

    split: str | None = None
    image_ids: tuple[int, ...] | None = None
    added_from: int | None = None
    added_before: int | None = None
    taken_from: int | None = None
    taken_before: int | None = None
    path_prefix: str | None = None
    absolute_paths: bool = False
    distinct_texts: bool = False
    written: bool | None = True
    camera: str | None = None
    rating: int | None = None
    near: tuple[float, float, float] | None = None
    has_place: bool | None = None
    has_captions: bool | None = None
    said: tuple[str, ...] = ()
    unsaid: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.image_ids is not None and len(self.image_ids) > IDS_PER_STATEMENT:
            raise BadQueryError(
                f"{len(self.image_ids):,} ids are selected: name at most {IDS_PER_STATEMENT:,}"
            )
        bounds = (self.added_from, self.added_before, self.taken_from, self.taken_before)
        times = [time for time in bounds if time is not None]
        numbers = [*(self.image_ids or ()), *times]
        if numbers and not -_NUMBERS <= min(numbers) <= max(numbers) < _NUMBERS:
            raise BadQueryError(
                "an id or a time that is selected is no number of 64 bits: no image has it"
            )
        if self.split is not None and (fault := fault_of(self.split)) is not None:
            raise BadQueryError(f"the name of the split {fault}: no image is of such a split")
        if self.path_prefix is not None and (fault := fault_of(self.path_prefix)) is not None:
            raise BadQueryError(f"the beginning of paths {fault}: no file has such a path")

    @property
    def depends_on_generation(self) -> bool:
        """Whether rows may be selected in one generation and not in another: files change."""
        places = (self.path_prefix, self.near, self.has_place)
        facts = (self.camera, self.rating, self.has_captions)
        return any(one is not None for one in (*places, *facts)) or bool(self.said or self.unsaid)

    def ids(self, catalog: Catalog, folder: Path, kind: Kind, among: Ids) -> Ids:
        """Return the selected ids of a kind, in no order: all that are `among` these (R,).

        `folder` is that of the index.
        """
        table = IMAGES if kind == "image" else CAPTIONS
        # Few rows may have ids that lie far apart, with a whole collection in between.
        few = len(among) <= IDS_PER_STATEMENT
        near = table.c.id.in_(among.tolist()) if few else _between(table, among)
        wanted = sql.select(table.c.id).where(near)
        if kind == "caption":
            wanted = wanted.join(IMAGES)
            if not self.written:
                wanted = wanted.where(CAPTIONS.c.id.not_in(sql.select(WRITTEN.c.caption_id)))
        with catalog.reading() as connection:
            wanted = wanted.where(*self.conditions(connection, folder))
            return np.fromiter(connection.execute(wanted).scalars(), np.int64)

    def conditions(self, connection: Connection, folder: Path) -> list[sql.ColumnElement[bool]]:
        """Return the conditions on `IMAGES` of the index in a folder."""
        clauses = [*self._by_facts(), *self._by_metadata()]
        if self.has_captions is not None:
            captioned = IMAGES.c.id.in_(captioned_images())
            clauses.append(captioned if self.has_captions else sql.not_(captioned))
        clauses += self._by_texts(connection.dialect.name)
        if self.path_prefix is not None:
            locations = Locations.read(connection, folder)
            below = locations.lies_below if self.absolute_paths else locations.shown_below
            clauses.append(below(self.path_prefix))
        return clauses

    def _by_facts(self) -> Iterator[sql.ColumnElement[bool]]:
        of = IMAGES.c
        if self.split is not None:
            yield of.split == self.split
        if self.image_ids is not None:
            # Database drivers take no numpy numbers, such as the ids of an answer.
            yield of.id.in_([int(id_) for id_ in self.image_ids])
        for time, first, end in (
            (of.added, self.added_from, self.added_before),
            (of.taken, self.taken_from, self.taken_before),
        ):
            if first is not None:
                yield time >= int(first)
            if end is not None:
                yield time < int(end)

    def _by_metadata(self) -> Iterator[sql.ColumnElement[bool]]:
        of = METADATA.c
        if self.camera is not None:
            yield _with_metadata(of.camera.icontains(self.camera, autoescape=True))
        if self.rating is not None:
            yield _with_metadata(of.rating >= self.rating)
        if self.has_place is not None:
            place = _with_metadata(of.latitude.is_not(None))
            yield place if self.has_place else sql.not_(place)
        if self.near is not None:
            latitude, longitude, kilometres = self.near
            x, y, z = on_sphere(latitude, longitude)
            # The straight line through the sphere, which grows with the way on its surface.
            line = 2 * sin(min(kilometres / _EARTH_KILOMETRES, pi) / 2)
            offsets = (of.x - x, of.y - y, of.z - z)
            squared = sum((offset * offset for offset in offsets), sql.literal(0.0))
            yield _with_metadata(squared <= line * line)

    def _by_texts(self, dialect: str) -> Iterator[sql.ColumnElement[bool]]:
        for text in self.said:
            yield IMAGES.c.id.in_(saying(dialect, text))
        for text in self.unsaid:
            yield IMAGES.c.id.not_in(saying(dialect, text))


def captioned_images() -> sql.Select[tuple[int]]:
    """Return the statement for the images that have captions of people."""
    own = sql.select(CAPTIONS.c.image_id).outerjoin(WRITTEN)
    return own.where(WRITTEN.c.caption_id.is_(None))


def on_sphere(latitude: float, longitude: float) -> tuple[float, float, float]:
    """Return a place, in degrees, as a point of the sphere of radius 1."""
    north, east = radians(latitude), radians(longitude)
    return cos(north) * cos(east), cos(north) * sin(east), sin(north)


def _with_metadata(condition: sql.ColumnElement[bool]) -> sql.ColumnElement[bool]:
    return IMAGES.c.id.in_(sql.select(METADATA.c.image_id).where(condition))


def _between(table: sql.Table, ids: Ids) -> sql.ColumnElement[bool]:
    return table.c.id.between(int(ids.min()), int(ids.max()))
