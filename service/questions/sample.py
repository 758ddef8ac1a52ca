"""Draws the sample of the first page: random images, and examples of searches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hasse.index.catalog.overview import Overview, read_overview
from hasse.index.catalog.searches import saved_searches
from hasse.index.types import Ids
from hasse.models.vocabulary import words
from hasse.service.plural import count
from hasse.service.questions import table
from hasse.service.questions.handlers import ask
from hasse.service.questions.requests import BATCH_MAXIMUM, ImagesQuery
from hasse.service.questions.things import THINGS
from hasse.service.verdict import is_true

if TYPE_CHECKING:
    from hasse.index.store import Index
    from hasse.service.core.engine import Engine

SHOWN = 24
EXAMPLES = 5
_THINGS = 10  # examples of things that pictures show
_FOLDERS = 200  # folders whose names are suggested
_SAMPLED = 120  # images whose captions give the examples
_LONGEST = 44  # maximum of characters of an example

_STOP_WORDS = frozenset(
    words(
        "a an and are at by down for from has her his in is it its near next of off on one out "
        "over some the their there this to two under up wearing while with"
    )
)


class ShownImage(NamedTuple):
    """An image of the sample: its id, its width and height, and a caption."""

    id: int
    pixels: tuple[int | None, int | None]
    text: str


@dataclass(frozen=True, slots=True)
class Sample:
    """Images of a collection, examples of searches, and numbers on the collection."""

    generation: int
    images: tuple[ShownImage, ...]
    examples: tuple[str, ...]
    facts: str
    overview: Overview
    suggestions: tuple[str, ...]


class Samples:
    """Caches the sample of the current generation."""

    def __init__(self) -> None:
        self._drawn: Sample | None = None
        self.search_names: tuple[str, ...] = ()  # of saved searches, at the last `of`

    @property
    def suggestions(self) -> tuple[str, ...]:
        """Suggestions for the search box, from the last sample."""
        searches = (f"@{name}" for name in self.search_names)
        return (*searches, *(() if self._drawn is None else self._drawn.suggestions))

    @property
    def overview(self) -> Overview:
        """The overview of the last sample."""
        return Overview() if self._drawn is None else self._drawn.overview

    async def of(self, engine: Engine) -> Sample:
        """Return the sample of the current generation, and read the names of saved searches."""
        searches = await engine.in_catalog(lambda: saved_searches(engine.index.catalog))
        self.search_names = tuple(search.name for search in searches)
        if self._drawn is None or self._drawn.generation != engine.index.generation:
            drawn = await engine.in_catalog(lambda: draw(engine.index))
            surest = await surest_things(engine) if drawn.images else []
            if len(surest) >= EXAMPLES:
                drawn = replace(
                    drawn,
                    examples=tuple(surest[:_THINGS]),
                    suggestions=(*surest, *drawn.suggestions),
                )
            self._drawn = drawn
        return self._drawn


async def surest_things(engine: Engine) -> list[str]:
    """Return the things that some picture shows, the most probable first."""
    known = [thing for thing in THINGS if not engine.vocabulary.unknown_words(thing)]
    scored: list[tuple[float, str]] = []
    for start in range(0, len(known), BATCH_MAXIMUM):
        captions = known[start : start + BATCH_MAXIMUM]
        request = ImagesQuery(captions=captions, k=1, mode="fast")
        batch = await ask(engine, table.SEARCH_IMAGES_BATCH, request)
        for thing, answer in zip(captions, batch.answers, strict=True):
            best = answer.hits[0].probability if answer.hits else None
            if is_true(best):
                scored.append((best or 0.0, thing))
    scored.sort(key=lambda pair: -pair[0])
    return [thing for _, thing in scored]


def draw(index: Index) -> Sample:
    """Draw the sample of a collection. It reads all ids and a few hundred rows."""
    info = index.info()
    image_ids = _sample_ids(index)
    rows_of = {
        image_id: [row for row in rows if row.written_by is None]
        for image_id, rows in index.catalog.captions_of(image_ids).items()
    }
    sizes = index.catalog.images(image_ids[:SHOWN])
    overview = read_overview(index.catalog, index.folder)
    captions = [row.text for rows in rows_of.values() for row in rows]
    folders = [path.rstrip("/").rpartition("/")[2] for path in islice(overview.folders, _FOLDERS)]
    return Sample(
        generation=info.generation,
        images=tuple(
            ShownImage(
                image_id,
                (sizes[image_id].width, sizes[image_id].height),
                next((row.text for row in rows_of[image_id]), f"picture {image_id}"),
            )
            for image_id in image_ids[:SHOWN]
        ),
        examples=tuple(pick_examples(captions)),
        facts=(
            f"{count(info.images, 'picture')} and {count(info.captions, 'caption')}, "
            f"answered by the model {info.model.name}."
        ),
        overview=overview,
        suggestions=tuple(dict.fromkeys((*captions, *overview.keywords, *folders))),
    )


def _sample_ids(index: Index) -> list[int]:
    """Return the ids with the smallest hashes, in that order.

    Such a sample does not depend on segments, and changes little with a few added images.
    """
    ids = index.snapshot.ids("image")
    hashes = _hashes(ids)
    if len(ids) > _SAMPLED:
        smallest = np.argpartition(hashes, _SAMPLED)[:_SAMPLED]
        ids, hashes = ids[smallest], hashes[smallest]
    return list(map(int, ids[np.argsort(hashes)]))


def _hashes(ids: Ids) -> NDArray[np.uint64]:
    """Return a hash (R,) of each id (SplitMix64)."""
    mixed = ids.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return mixed ^ (mixed >> np.uint64(31))


def pick_examples(captions: Iterable[str]) -> list[str]:
    """Pick short captions that share no word, from the shortest to the longest.

    One comes from each fifth of the captions in order of length; frequent captions go first.
    """
    frequency = Counter(captions)
    short = [t for t in frequency if len(words(t)) > 2 and len(t) <= _LONGEST and not t.isupper()]
    short.sort(key=lambda text: (len(words(text)), -frequency[text]))
    picked: list[str] = []
    used: set[str] = set()
    for part in range(EXAMPLES):
        for text in short[len(short) * part // EXAMPLES :]:
            topics = [word for word in words(text) if word not in _STOP_WORDS]
            if topics and len({*topics, *used}) == len(topics) + len(used):
                picked.append(text)
                used.update(topics)
                break
    return picked
