"""A sample of the collection, always the same: what the first view shows and bars are held to."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sql
from fastapi import Request

from index.schema import IMAGES
from models.vocabulary import words
from service.page.scale import Scale, measure
from service.page.view import Link, Query, Thumbnail, count, links, thumbnail

if TYPE_CHECKING:
    from index.store import Index
    from models.calibration import Calibration
    from service.engine import Engine

SHOWN = 24
EXAMPLES = 5
_SAMPLED = 120  # images whose captions make the examples and the scale
_SEED = 0
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


async def sample(engine: Engine, known: Sample | None) -> Sample:
    """Return the sample of the present generation: `known`, if it still is."""
    if known is not None and known.generation == engine.index.generation:
        return known
    calibration = engine.checkpoint.calibration.image
    return await engine.in_catalog(lambda: draw(engine.index, calibration))


async def sampled(request: Request, engine: Engine) -> Sample:
    """Return the sample of the collection that this application holds answers to."""
    drawn = await sample(engine, getattr(request.app.state, "sample", None))
    request.app.state.sample = drawn
    return drawn


def linked(drawn: Sample, query: Query) -> Welcome:
    """Return a sample whose links keep the options of a query."""
    return Welcome(
        images=tuple(thumbnail(image_id, alt, query) for image_id, alt in drawn.images),
        examples=links(drawn.examples, query),
        facts=drawn.facts,
    )


def draw(index: Index, calibration: Calibration | None) -> Sample:
    """Draw the sample of a collection: reads a few hundred rows, whatever its size.

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
    """Return the ids of images scattered over the collection, in a random order that stays."""
    column = IMAGES.c.id
    dice = random.Random(_SEED)
    ids = sql.select(column).order_by(column)
    with index.catalog.reading() as connection:
        found = list(connection.execute(ids.limit(_SAMPLED + 1)).scalars())
        if len(found) > _SAMPLED:
            low, high = found[0], connection.execute(sql.select(sql.func.max(column))).scalar_one()
            places = [dice.randint(low, high) for _ in range(_SAMPLED)]
            nearest = [ids.where(column >= place).limit(1) for place in places]
            found = [connection.execute(query).scalar_one() for query in nearest]
    found = list(dict.fromkeys(map(int, found)))
    dice.shuffle(found)
    return found


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
