"""The Hasse diagram of a caption or an image: what lies right above it and right below.

Where a model has learned which caption follows from which, and its calibration says what violations
between captions mean, captions are compared directly. Other models only know which captions are
true of which pictures, so there captions are compared through pictures. On scenes, whose truth is
known, the first is much the better (`benchmarks/learning/lattice.py`).
"""

from __future__ import annotations

from itertools import chain

import numpy as np
from numpy.typing import NDArray

from index.types import CaptionRow
from models.diagram import (
    Relation,
    by_violation,
    classes,
    closure,
    covering,
    depths,
    through_pictures,
)
from models.model import Points
from models.score import penalties_between
from service.core.encoding import check_caption
from service.core.engine import Engine
from service.core.stages import Stages
from service.errors import absent
from service.lattice_schemas import Diagram, DiagramEdge, DiagramNode
from service.schemas import SearchOptions

NODES = 14
_ACROSS = (5, 2)  # most that are shown right above or below the first, and any other
_PICTURES = 250  # the best for the caption, and as many of the collection: what captions say
_CAPTIONS = 160
# Without calibration, true is what violates less than the best quarter of all pairs.
_LIKELY = 0.25


async def of_caption(engine: Engine, caption: str, stages: Stages) -> Diagram:
    """Draw what is more general and more particular than a caption.

    Raises:
        ServiceError: as the engine's searches do.
    """
    check_caption(caption, engine.settings)
    async with engine.enter(stages):
        (point,) = await engine.encode_captions([caption], stages)
        near = await engine.search("image", point, SearchOptions(k=_PICTURES), stages)
        image_ids = [int(found) for found in near.answer.ids if int(found) in near.images]
        captions_of = await engine.captions_of(image_ids[:60])
        shown = await engine.stored_points("image", image_ids[:3])
        rows = list(chain.from_iterable(captions_of.values()))
        if shown:
            shared = await engine.search_jointly(
                "caption", np.stack(list(shown.values())), SearchOptions(k=200), stages
            )
            rows = [*shared.captions.values(), *rows]
        diagram = await _drawn(engine, caption, point, rows, image_ids, stages)
    engine.finish(stages)
    return diagram


async def of_image(engine: Engine, image_id: int, stages: Stages) -> Diagram:
    """Draw the captions that are true of an image, from the general to the particular.

    Raises:
        ServiceError: as the engine's searches do, and `not_found`.
    """
    async with engine.enter(stages):
        stored = await engine.stored_points("image", [image_id])
        if image_id not in stored:
            raise absent(image_id)
        true = await engine.search("caption", stored[image_id], SearchOptions(k=400), stages)
        rows = [true.captions[int(i)] for i in true.answer.ids if int(i) in true.captions]
        vocabulary = engine.vocabulary
        rows = [row for row in rows if vocabulary.knows(row.text)]  # of others nothing can be said
        diagram = await _drawn(engine, image_id, stored[image_id], rows, [image_id], stages)
    engine.finish(stages)
    return diagram


async def _drawn(
    engine: Engine,
    focus: str | int,
    point: Points,
    rows: list[CaptionRow],
    image_ids: list[int],
    stages: Stages,
) -> Diagram:
    texts: dict[str, CaptionRow] = {}
    for row in rows:
        if row.text != focus:
            texts.setdefault(row.text, row)
    chosen = list(texts.values())[:_CAPTIONS]
    stored = await engine.stored_points("caption", [row.id for row in chosen])
    chosen = [row for row in chosen if row.id in stored]
    found = [stored[row.id] for row in chosen]
    names = [row.text for row in chosen]
    if isinstance(focus, str):
        found, names = [point, *found], [focus, *names]
    elif found:
        kept = np.flatnonzero(_likely(engine, point[None], np.stack(found))[0] >= 0.5)
        found, names = [found[at] for at in kept], [names[at] for at in kept]
    if not found:
        return Diagram(nodes=[], edges=[], model=engine.name, unknown_words=[])
    relation = await _below(engine, np.stack(found), image_ids, stages)
    if not isinstance(focus, str):
        # The image is the bottom: it precedes all that is true of it.
        relation = np.pad(relation, ((1, 0), (1, 0)))
        relation[0] = True
        names = ["", *names]
    return _laid_out(engine, relation, names, focus if isinstance(focus, int) else None)


async def _below(
    engine: Engine, captions: Points, image_ids: list[int], stages: Stages
) -> Relation:
    """Return which caption is below which: (C, N) -> (C, C)."""
    calibration = engine.calibration
    if calibration.caption is not None:
        return by_violation(
            penalties_between(engine.score, captions, captions),
            calibration.caption.threshold,
        )
    # The origin is true of everything: the first images of the collection, whatever they show.
    some = await engine.search(
        "image", np.zeros_like(captions[0]), SearchOptions(k=_PICTURES), stages
    )
    everywhere = list(dict.fromkeys([*image_ids, *map(int, some.answer.ids)]))
    images = await engine.stored_points("image", everywhere)
    if not images:
        return np.eye(len(captions), dtype=np.bool_)  # nothing tells captions apart
    return through_pictures(_likely(engine, np.stack(list(images.values())), captions))


def _likely(engine: Engine, images: Points, captions: Points) -> NDArray[np.float64]:
    found = penalties_between(engine.score, images, captions)
    calibration = engine.calibration
    if calibration.image is not None:
        return calibration.image.probability(found)
    return np.asarray(found <= np.quantile(found, _LIKELY), np.float64)


def _laid_out(
    engine: Engine, relation: Relation, names: list[str], image_id: int | None
) -> Diagram:
    preorder = closure(relation)
    number = classes(preorder)
    _, first = np.unique(number, return_index=True)
    order = preorder[np.ix_(first, first)]
    chosen = _around(covering(order), int(number[0]))
    covers = covering(order[np.ix_(chosen, chosen)])
    depth = depths(covers)
    nodes = []
    for at, found in enumerate(chosen):
        members = [names[n] for n in np.flatnonzero(number == found) if names[n]]
        focus = found == number[0]
        place = "above" if order[number[0], found] else "below" if order[found, number[0]] else ""
        nodes.append(
            DiagramNode(
                captions=members,
                image_id=image_id if focus else None,
                place="focus" if focus else place or "beside",
                depth=int(depth[at]),
            )
        )
    vocabulary = engine.vocabulary
    edges = [DiagramEdge(lower=int(x), upper=int(y)) for x, y in np.argwhere(covers)]
    return Diagram(
        nodes=nodes,
        edges=edges,
        model=engine.name,
        unknown_words=vocabulary.unknown(names[0]),
    )


def _around(covers: Relation, start: int) -> list[int]:
    """Return up to `NODES` elements, those fewest steps up or down from the first, that first."""
    down = _steps(covers.T, start, NODES)
    up = _steps(covers, start, NODES)
    # Half for what is above, and what either side leaves over is for the other.
    below = down[: max(NODES // 2, NODES - 1 - len(up))]
    return [start, *up[: NODES - 1 - len(below)], *below]


def _steps(next_to: Relation, start: int, count: int) -> list[int]:
    found = [start]
    for at in found:
        fresh = [n for n in np.flatnonzero(next_to[at]).tolist() if n not in found]
        found.extend(fresh[: _ACROSS[at != start]])
    return found[1 : count + 1]
