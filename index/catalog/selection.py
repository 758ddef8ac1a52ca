"""Filters of a search: by id, folder, date, metadata, captions and texts.

A selection excludes rows from one search. Every kernel, bound and proof treats these rows like
deleted ones, so the answer is the exact top k of the selected rows.
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
from hasse.index.catalog.text_statements import says
from hasse.index.catalog.validation import text_fault
from hasse.index.errors import BadQueryError
from hasse.index.types import Ids, Kind

_BIGINT_END = 1 << 63  # exclusive upper bound of SQL BIGINT
_EARTH_KILOMETRES = 6371.0088  # mean radius


@dataclass(frozen=True, slots=True)
class Selection:
    """Conditions on images; a caption is selected with its image, and None selects all.

    Attributes:
        added_from, added_before, taken_from, taken_before: milliseconds since 1970; the upper
            bounds are exclusive. A picture without a date is in no range of dates.
        path_prefix: begins the path as answers show it, or with `absolute_paths` the absolute path.
        distinct_texts: one of the captions that read the same; see `index.search.distinct`.
        written: captions that a model generated: all, none, or with None all, unless there are
            human ones.
        camera: a part of its name.
        rating: the lowest.
        near: latitude and longitude in degrees, and the radius in kilometres.
        has_captions: whether the image has human captions.
        phrases: folded texts that must all be in the image's texts.
        excluded_phrases: folded texts of which none must be.
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
    phrases: tuple[str, ...] = ()
    excluded_phrases: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.image_ids is not None and len(self.image_ids) > IDS_PER_STATEMENT:
            raise BadQueryError(
                f"the filter has {len(self.image_ids):,} ids: name at most {IDS_PER_STATEMENT:,}"
            )
        bounds = (self.added_from, self.added_before, self.taken_from, self.taken_before)
        times = [time for time in bounds if time is not None]
        numbers = [*(self.image_ids or ()), *times]
        if numbers and not -_BIGINT_END <= min(numbers) <= max(numbers) < _BIGINT_END:
            raise BadQueryError(
                "an id or a time in the filter is outside the range of 64-bit integers: no image "
                "has it"
            )
        if self.split is not None and (fault := text_fault(self.split)) is not None:
            raise BadQueryError(f"the name of the split {fault}: no image is of such a split")
        if self.path_prefix is not None and (fault := text_fault(self.path_prefix)) is not None:
            raise BadQueryError(f"the beginning of paths {fault}: no file has such a path")

    @property
    def depends_on_generation(self) -> bool:
        """Whether a later generation may select other rows, since the facts of images change."""
        places = (self.path_prefix, self.near, self.has_place)
        facts = (self.camera, self.rating, self.has_captions)
        has_phrases = bool(self.phrases or self.excluded_phrases)
        return any(value is not None for value in (*places, *facts)) or has_phrases

    def ids(self, catalog: Catalog, folder: Path, kind: Kind, among: Ids) -> Ids:
        """Return the selected ids of `among` (R,), unordered; it may return further selected ids.

        `folder` is the folder of the index.
        """
        table = IMAGES if kind == "image" else CAPTIONS
        # Few ids are named, because a whole collection may lie between the lowest and the highest.
        few = len(among) <= IDS_PER_STATEMENT
        in_range = table.c.id.in_(among.tolist()) if few else _between(table, among)
        statement = sql.select(table.c.id).where(in_range)
        if kind == "caption":
            statement = statement.join(IMAGES)
            if not self.written:
                statement = statement.where(CAPTIONS.c.id.not_in(sql.select(WRITTEN.c.caption_id)))
        with catalog.searching() as connection:
            statement = statement.where(*self.conditions(connection, folder))
            return np.fromiter(connection.execute(statement).scalars(), np.int64)

    def newest(self, connection: Connection, folder: Path, limit: int) -> list[int]:
        """Return the newest selected images, at most `limit`; `folder` is that of the index."""
        ids = sql.select(IMAGES.c.id).where(*self.conditions(connection, folder))
        return list(connection.execute(ids.order_by(IMAGES.c.id.desc()).limit(limit)).scalars())

    def conditions(self, connection: Connection, folder: Path) -> list[sql.ColumnElement[bool]]:
        """Return the SQL conditions on `IMAGES`; `folder` is the folder of the index."""
        clauses = [*self._by_facts(), *self._by_metadata()]
        if self.has_captions is not None:
            captioned = IMAGES.c.id.in_(captioned_images())
            clauses.append(captioned if self.has_captions else sql.not_(captioned))
        clauses += self._by_texts(connection.dialect.name)
        if self.path_prefix is not None:
            locations = Locations.read(connection, folder)
            clauses.append(
                locations.absolute_path_starts(self.path_prefix)
                if self.absolute_paths
                else locations.shown_path_starts(self.path_prefix)
            )
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
            # The length of the chord, which grows with the distance on the surface.
            chord = 2 * sin(min(kilometres / _EARTH_KILOMETRES, pi) / 2)
            offsets = (of.x - x, of.y - y, of.z - z)
            squared = sum((offset * offset for offset in offsets), sql.literal(0.0))
            yield _with_metadata(squared <= chord * chord)

    def _by_texts(self, dialect: str) -> Iterator[sql.ColumnElement[bool]]:
        for text in self.phrases:
            yield says(dialect, IMAGES.c.id, text)
        if self.excluded_phrases:
            yield sql.not_(says(dialect, IMAGES.c.id, *self.excluded_phrases))


def captioned_images() -> sql.Select[tuple[int]]:
    """Return the statement for the ids of images with human captions."""
    captions = sql.select(CAPTIONS.c.image_id).outerjoin(WRITTEN)
    return captions.where(WRITTEN.c.caption_id.is_(None))


def on_sphere(latitude: float, longitude: float) -> tuple[float, float, float]:
    """Return the point x, y, z of a place in degrees on the sphere of radius 1."""
    north, east = radians(latitude), radians(longitude)
    return cos(north) * cos(east), cos(north) * sin(east), sin(north)


def _with_metadata(condition: sql.ColumnElement[bool]) -> sql.ColumnElement[bool]:
    return IMAGES.c.id.in_(sql.select(METADATA.c.image_id).where(condition))


def _between(table: sql.Table, ids: Ids) -> sql.ColumnElement[bool]:
    return table.c.id.between(int(ids.min()), int(ids.max()))
