"""A sample of the collection, always the same: what the first view shows and bars are held to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from index.types import Ids
from models.vocabulary import words
from service.page.scale import Scale, measure
from service.page.views import Link, Query, Thumbnail, links, thumbnail
from service.plural import count

if TYPE_CHECKING:
    from index.store import Index
    from models.evaluation.calibration import Calibration
    from service.core.engine import Engine

SHOWN = 24
EXAMPLES = 5
_SAMPLED = 120  # images whose captions make the examples and the scale
_LONGEST = 44  # characters of an example

# Words that say nothing of what a caption is about.
_SMALL = frozenset(
    words(
        "a an and are at by down for from has her his in is it its near next of off on one out "
        "over some the their there this to two under up wearing while with"
    )
)


@dataclass(frozen=True, slots=True)
class Sample:
    """What a part of the collection tells of one generation of it."""

    generation: int
    images: tuple[tuple[int, str], ...]
    examples: tuple[str, ...]
    facts: str
    scale: Scale


@dataclass(frozen=True, slots=True)
class Welcome:
    """A sample with its links."""

    images: tuple[Thumbnail, ...]
    examples: tuple[Link, ...]
    facts: str


class Samples:
    """The sample of one application, drawn anew for each generation."""

    def __init__(self) -> None:
        self._drawn: Sample | None = None

    async def of(self, engine: Engine) -> Sample:
        """Return the sample of the present generation."""
        if self._drawn is None or self._drawn.generation != engine.generation:
            calibration = engine.calibration
            self._drawn = await engine.in_catalog(lambda: draw(engine.index, calibration.image))
        return self._drawn


def linked(drawn: Sample, query: Query) -> Welcome:
    """Return a sample whose links keep the options of a query."""
    return Welcome(
        images=tuple(thumbnail(image_id, alt, query) for image_id, alt in drawn.images),
        examples=links(drawn.examples, query),
        facts=drawn.facts,
    )


def draw(index: Index, calibration: Calibration | None) -> Sample:
    """Draw the sample of a collection: reads all ids and a few hundred rows.

    `calibration` says what violations of its captions and images mean, if anything does.
    """
    info = index.info()
    image_ids = _some_images(index)
    rows_of = index.captions_of(image_ids)
    return Sample(
        generation=info.generation,
        images=tuple(
            (image_id, next((row.text for row in rows_of[image_id]), f"picture {image_id}"))
            for image_id in image_ids[:SHOWN]
        ),
        examples=tuple(inviting(row.text for rows in rows_of.values() for row in rows)),
        facts=(
            f"{count(info.images, 'picture')} and {count(info.captions, 'caption')}, "
            f"answered by the model {info.model.name}."
        ),
        scale=measure(
            index, {n: [row.id for row in rows] for n, rows in rows_of.items()}, calibration
        ),
    )


def _some_images(index: Index) -> list[int]:
    """Return the ids of images scattered over the collection, in a random order that stays.

    They are those whose scrambled ids are smallest: as many from where ids lie close as there are
    images, whatever segments those are in, and mostly the same where a few come or go.
    """
    living = [live.segment.ids[live.rows()] for live in index.snapshot.of("image")]
    ids = np.concatenate([np.empty(0, np.int64), *living])
    chance = _scrambled(ids)
    if len(ids) > _SAMPLED:
        drawn = np.argpartition(chance, _SAMPLED)[:_SAMPLED]
        ids, chance = ids[drawn], chance[drawn]
    return list(map(int, ids[np.argsort(chance)]))


def _scrambled(ids: Ids) -> NDArray[np.uint64]:
    """Return numbers (R,) as if drawn by chance, always the same for an id (SplitMix64)."""
    mixed = ids.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return mixed ^ (mixed >> np.uint64(31))


def inviting(captions: Iterable[str]) -> list[str]:
    """Choose short captions that speak of different things, from the general to the particular.

    One comes from each part of the captions in order of length, where what is said often goes
    first among equals.
    """
    often = Counter(captions)
    short = [t for t in often if len(words(t)) > 2 and len(t) <= _LONGEST and not t.isupper()]
    short.sort(key=lambda text: (len(words(text)), -often[text]))
    chosen: list[str] = []
    said: set[str] = set()
    for part in range(EXAMPLES):
        for text in short[len(short) * part // EXAMPLES :]:
            about = [word for word in words(text) if word not in _SMALL]
            if about and len({*about, *said}) == len(about) + len(said):
                chosen.append(text)
                said.update(about)
                break
    return chosen
