"""What is written to the collection, by one thread: as many changes as wait, in one generation."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np

from index import durable
from index.errors import BadRowsError, NotLoadedError
from index.segments import stored_pictures
from index.store import LOCK_PATIENCE, Index
from index.types import CaptionRow, ImageRow, Kind, Points
from service.core.encoding import Point
from service.errors import ServiceError, absent
from service.runtime.logs import event
from service.schemas import ID_MAXIMUM

Lane: TypeAlias = Literal["add", "remove"]

# Another process may take an id between the look at the catalog and the change.
_ATTEMPTS = 3


@dataclass(frozen=True, slots=True, eq=False)
class Arrival:
    """A picture on its way into the collection `since` then, with its captions, all encoded."""

    picture: bytes
    sha256: str
    suffix: str
    file_name: str
    width: int
    height: int
    split: str
    image_id: int | None
    point: Point
    captions: Sequence[str]
    caption_points: Points
    since: float = field(default_factory=time.monotonic)


@dataclass(frozen=True, slots=True)
class Removal:
    """An image that is to go, asked for `since` then."""

    image_id: int
    since: float = field(default_factory=time.monotonic)


@dataclass(frozen=True, slots=True)
class Stored:
    """An image of the collection; `created` is False when its picture was there already."""

    row: ImageRow
    captions: list[CaptionRow]
    created: bool


Change: TypeAlias = Arrival | Removal
Outcome: TypeAlias = Stored | ServiceError | None


class Ledger:
    """Plans and makes the changes of one batch. Belongs to one thread."""

    def __init__(self, index: Index, on_change: Callable[[], None]) -> None:
        self._index = index
        self._on_change = on_change

    def run(self, lane: Lane, items: Sequence[Change]) -> list[Outcome]:
        """Make the changes, durably; what is refused is refused alone.

        Other writers are waited for until the change that has waited longest has no patience left.

        Raises:
            HasseIndexError, OSError: nothing was changed.
        """
        with stored_pictures.alone(self._index.folder, _patience(items)):
            if lane == "remove":
                return self._remove([item for item in items if isinstance(item, Removal)])
            return self._add([item for item in items if isinstance(item, Arrival)])

    def _add(self, arrivals: Sequence[Arrival]) -> list[Outcome]:
        for attempt in range(1, _ATTEMPTS + 1):
            plan = Plan(self._index)
            outcomes = [plan.take(arrival) for arrival in arrivals]
            try:
                self._commit(plan, arrivals)
            except BadRowsError:
                if attempt == _ATTEMPTS:
                    raise
            else:
                break
        ids = [outcome.row.id for outcome in outcomes if isinstance(outcome, Stored)]
        rows, captions = self._index.images_with_captions(ids)
        return [
            Stored(rows.get(one.row.id, one.row), captions[one.row.id], one.created)
            if isinstance(one, Stored)
            else one
            for one in outcomes
        ]

    def _commit(self, plan: Plan, arrivals: Sequence[Arrival]) -> None:
        if not plan.images and not plan.captions:
            return
        pictures: dict[str, str] = {}  # by path, the SHA-256
        try:
            for arrival in plan.pictures:
                path = stored_pictures.keep(
                    self._index.folder, arrival.picture, arrival.sha256, arrival.suffix
                )
                pictures[path] = arrival.sha256
            dimension = self._index.model.dimension
            with _standing():
                self._index.add(
                    plan.images,
                    np.reshape([arrival.point for arrival in plan.pictures], (-1, dimension)),
                    plan.captions,
                    np.reshape(plan.caption_points, (-1, dimension)),
                    patience=_patience(arrivals),
                )
        except Exception:
            if pictures:
                self._index.catalog.settle()
            for path, sha256 in pictures.items():
                # It may have been there, as that of an image which was added before.
                if not self._is_shown(path, sha256):
                    durable.remove(self._index.folder / path)
            raise
        self._on_change()

    def _remove(self, removals: Sequence[Removal]) -> list[Outcome]:
        image_ids = [removal.image_id for removal in removals]
        rows = self._index.images(image_ids)
        outcomes: list[Outcome] = []
        for at, image_id in enumerate(image_ids):
            there = image_id in rows and image_id not in image_ids[:at]
            outcomes.append(None if there else absent(image_id))
        if rows:
            with _standing():
                self._index.remove(sorted(rows), patience=_patience(removals))
            for row in rows.values():
                if stored_pictures.is_kept(row) and not self._is_shown(row.path, row.sha256):
                    self._discard(row.path)
            self._on_change()
        return outcomes

    def _discard(self, path: str) -> None:
        """Remove the kept picture of an image that is gone, or leave it to the next start."""
        try:
            durable.remove(self._index.folder / path)
        except OSError as error:
            event("picture not removed", logging.WARNING, path=path, error=str(error))

    def _is_shown(self, path: str, sha256: str) -> bool:
        """Tell whether an image of the collection has a kept picture as its file."""
        same = self._index.catalog.image_of(sha256)
        return same is not None and same.path == path


@dataclass(slots=True)
class Plan:
    """The rows that a batch of arrivals will add."""

    index: Index
    images: list[ImageRow] = field(default_factory=list)
    pictures: list[Arrival] = field(default_factory=list)
    captions: list[CaptionRow] = field(default_factory=list)
    caption_points: list[Point] = field(default_factory=list)
    _largest: dict[Kind, int] = field(default_factory=dict)
    _texts: dict[int, set[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._largest.update(self.index.catalog.largest_ids())

    def take(self, arrival: Arrival) -> Stored | ServiceError:
        """Plan one arrival; the rows in what is returned are those known so far."""
        there = self._there(arrival.sha256)
        if there is not None:
            if arrival.image_id not in (None, there.id):
                return ServiceError("conflict", f"this picture is the image {there.id} already")
            refusal = self._add_captions(there.id, arrival)
            return refusal or Stored(there, [], created=False)
        image_id = arrival.image_id
        if image_id is None:
            image_id = self._largest["image"] + 1
        if image_id > ID_MAXIMUM:
            return ServiceError("conflict", "there is no larger id left: send one as image_id")
        if self._is_taken(image_id):
            return ServiceError("conflict", f"another picture is the image {image_id} already")
        path = stored_pictures.path_of(arrival.sha256, arrival.suffix)
        row = ImageRow(
            image_id,
            arrival.file_name or f"{image_id}{arrival.suffix}",
            path,
            arrival.width,
            arrival.height,
            arrival.split,
            arrival.sha256,
        )
        self._texts[image_id] = set()
        if (refusal := self._add_captions(image_id, arrival)) is not None:
            return refusal
        self._largest["image"] = max(self._largest["image"], image_id)
        self.images.append(row)
        self.pictures.append(arrival)
        return Stored(row, [], created=True)

    def _there(self, sha256: str) -> ImageRow | None:
        planned = next((row for row in self.images if row.sha256 == sha256), None)
        return planned or self.index.catalog.image_of(sha256)

    def _is_taken(self, image_id: int) -> bool:
        if any(row.id == image_id for row in self.images):
            return True
        return self.index.image(image_id) is not None

    def _add_captions(self, image_id: int, arrival: Arrival) -> ServiceError | None:
        """Plan the captions that an image lacks: all of them, or none and say why."""
        if image_id not in self._texts:
            known = self.index.captions_of([image_id])[image_id]
            self._texts[image_id] = {row.text for row in known}
        texts = self._texts[image_id]
        if self._largest["caption"] + len(set(arrival.captions) - texts) > ID_MAXIMUM:
            return ServiceError(
                "conflict", "there is no larger id left for a caption: send the picture alone"
            )
        for text, point in zip(arrival.captions, arrival.caption_points, strict=True):
            if text not in texts:
                texts.add(text)
                self._largest["caption"] += 1
                self.captions.append(CaptionRow(self._largest["caption"], image_id, text))
                self.caption_points.append(point)
        return None


@contextmanager
def _standing() -> Iterator[None]:
    """Let a change stand that is made and could not be loaded: the next look loads it."""
    try:
        yield
    except NotLoadedError as error:
        event("refresh failed", logging.ERROR, error=str(error))


def _patience(changes: Sequence[Change]) -> float:
    """Return for how many seconds a lock may still be waited for."""
    return max(0.0, min(change.since for change in changes) + LOCK_PATIENCE - time.monotonic())
