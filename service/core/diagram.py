"""The Hasse diagram around a caption or an image: its neighbours above and below in the order.

If the model is calibrated for pairs of captions, captions are compared directly. Other models only
know which captions are true of which pictures, so captions are compared through pictures. On
scenes, whose truth is known, the former is far better (`studies/tables/lattice.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from hasse.index.types import CaptionRow, FoundCaption
from hasse.models.diagram import (
    Relation,
    by_violation,
    classes,
    closure,
    covering,
    depths,
    through_pictures,
)
from hasse.models.model import Points
from hasse.models.score import penalties_between
from hasse.service.core.encoding import Point, check_query
from hasse.service.core.engine import Engine
from hasse.service.core.stages import Stages
from hasse.service.errors import no_image
from hasse.service.lattice_schemas import Diagram, DiagramEdge, DiagramNode
from hasse.service.picture_schemas import DistinctOptions
from hasse.service.schemas import SearchOptions

NODES = 14
_NEIGHBOURS = (5, 2)  # most in one direction of the focus, and of any other node
_PICTURES = 250  # the best for the caption, and as many others, to compare captions through
_CAPTIONS = 160
# Without calibration, the best quarter of all pairs counts as true.
_LIKELY_QUANTILE = 0.25


async def of_caption(engine: Engine, caption: str, stages: Stages) -> Diagram:
    """Return the diagram of captions more general and more specific than a caption.

    Raises:
        ServiceError: as the searches of the engine.
    """
    check_query(caption, engine.vocabulary, engine.settings)
    async with engine.enter(stages):
        (point,) = await engine.encode_captions([caption], stages)
        near = await engine.search("image", point, SearchOptions(k=_PICTURES), stages)
        image_ids = [int(hit) for hit in near.answer.ids if int(hit) in near.images]
        captions_of = await engine.captions_of(image_ids[:60])
        rows: list[CaptionRow | FoundCaption] = _of_people(
            chain.from_iterable(captions_of.values())
        )
        best = await engine.stored_points("image", image_ids[:3])
        if best:
            shared = await engine.search_jointly(
                "caption", np.stack(list(best.values())), _by_people(200), stages
            )
            rows = [*shared.captions.values(), *rows]
        texts, points = await _captions(engine, [row for row in rows if row.text != caption])
        points = np.concatenate([point[None], points]) if texts else point[None]
        relation = await _relation(engine, [caption, *texts], points, image_ids, stages)
    engine.finish(stages)
    return _diagram(engine, relation, [caption, *texts], None)


async def of_image(engine: Engine, image_id: int, stages: Stages) -> Diagram:
    """Return the diagram of an image's own captions, and of those likely to be true of it.

    Raises:
        ServiceError: as the searches of the engine, and `not_found`.
    """
    async with engine.enter(stages):
        stored = await engine.stored_points("image", [image_id])
        if image_id not in stored:
            raise no_image(image_id)
        point = stored[image_id]
        found = await engine.search("caption", point, _by_people(400), stages)
        own = _of_people((await engine.captions_of([image_id]))[image_id])
        rows = list(own)
        rows += [found.captions[int(hit)] for hit in found.answer.ids if int(hit) in found.captions]
        texts, points = await _captions(
            engine, [row for row in rows if engine.vocabulary.knows(row.text)]
        )
        if texts:
            written = np.isin(texts, [row.text for row in own])
            true = np.flatnonzero(written | _are_true(engine, point, points, texts))
            texts, points = [texts[at] for at in true], points[true]
        relation = await _relation(engine, texts, points, [image_id], stages) if texts else None
    engine.finish(stages)
    if relation is None:
        return Diagram(nodes=[], edges=[], model=engine.name, unknown_words=[])
    # The image is the bottom: it precedes all captions that are true of it.
    relation = np.pad(relation, ((1, 0), (1, 0)))
    relation[0] = True
    return _diagram(engine, relation, ["", *texts], image_id)


def _by_people(k: int) -> DistinctOptions:
    return DistinctOptions(k=k, distinct=False, written=False)


def _of_people(rows: Iterable[CaptionRow]) -> list[CaptionRow | FoundCaption]:
    return [row for row in rows if row.written_by is None]


async def _captions(
    engine: Engine, rows: Sequence[CaptionRow | FoundCaption]
) -> tuple[list[str], Points]:
    """Return the first distinct captions and their points (C, N), except those just removed."""
    first: dict[str, CaptionRow | FoundCaption] = {}
    for row in rows:
        first.setdefault(row.text, row)
    chosen = list(first.values())[:_CAPTIONS]
    stored = await engine.stored_points("caption", [row.id for row in chosen])
    chosen = [row for row in chosen if row.id in stored]
    points = np.array([stored[row.id] for row in chosen], np.float32)
    return [row.text for row in chosen], points


async def _relation(
    engine: Engine,
    texts: Sequence[str],
    captions: Points,
    image_ids: Sequence[int],
    stages: Stages,
) -> Relation:
    """Return which caption precedes which: (C, N) -> (C, C)."""
    calibration = engine.calibration.caption
    if calibration is not None:
        violations = penalties_between(engine.score, captions, captions)
        return by_violation(violations, calibration.threshold)
    # The origin is true of everything, so this finds images whatever they show.
    others = await engine.search(
        "image", np.zeros_like(captions[0]), SearchOptions(k=_PICTURES), stages
    )
    ids = list(dict.fromkeys([*image_ids, *map(int, others.answer.ids)]))
    images = await engine.stored_points("image", ids)
    if not images:
        return np.eye(len(captions), dtype=np.bool_)
    return through_pictures(_likely(engine, np.stack(list(images.values())), captions, texts))


def _are_true(
    engine: Engine, image: Point, captions: Points, texts: Sequence[str]
) -> NDArray[np.bool_]:
    """Return which captions count as true of an image (N,): (C,)."""
    calibration = engine.calibration.image
    if calibration is None:
        return np.asarray(_likely(engine, image[None], captions, texts)[0] >= 0.5)
    violations = penalties_between(engine.score, image[None], captions)[0]
    return np.asarray(violations <= [calibration.of(text).threshold for text in texts])


def _likely(
    engine: Engine, images: Points, captions: Points, texts: Sequence[str]
) -> NDArray[np.float64]:
    """Return how probable it is that each caption is true of each image: (I, C)."""
    violations = penalties_between(engine.score, images, captions)
    calibration = engine.calibration.image
    if calibration is not None:
        columns = zip(texts, violations.T, strict=True)
        return np.stack([calibration.of(text).probability(each) for text, each in columns], 1)
    return np.asarray(violations <= np.quantile(violations, _LIKELY_QUANTILE), np.float64)


def _diagram(
    engine: Engine, relation: Relation, names: Sequence[str], image_id: int | None
) -> Diagram:
    """Return the diagram around the first element; `image_id` is set if that is an image."""
    preorder = closure(relation)
    number = classes(preorder)
    _, first = np.unique(number, return_index=True)
    order = preorder[np.ix_(first, first)]
    focus = int(number[0])
    chosen = _around(covering(order), focus)
    covers = covering(order[np.ix_(chosen, chosen)])
    nodes = []
    for one, depth in zip(chosen, depths(covers), strict=True):
        place = "above" if order[focus, one] else "below" if order[one, focus] else "beside"
        nodes.append(
            DiagramNode(
                captions=[names[at] for at in np.flatnonzero(number == one).tolist() if names[at]],
                image_id=image_id if one == focus else None,
                place="focus" if one == focus else place,
                depth=int(depth),
            )
        )
    return Diagram(
        nodes=nodes,
        edges=[DiagramEdge(lower=int(x), upper=int(y)) for x, y in np.argwhere(covers)],
        model=engine.name,
        unknown_words=engine.vocabulary.unknown(names[0]),
    )


def _around(covers: Relation, start: int) -> list[int]:
    """Return up to `NODES` elements: `start`, and those fewest steps above and below it."""
    down = _steps(covers.T, start)
    up = _steps(covers, start)
    # Each direction gets half, and what the other leaves over.
    below = down[: max(NODES // 2, NODES - 1 - len(up))]
    return [start, *up[: NODES - 1 - len(below)], *below]


def _steps(next_to: Relation, start: int) -> list[int]:
    """Return elements by their number of steps from `start`, without it."""
    found = [start]
    for at in found:
        new = [n for n in np.flatnonzero(next_to[at]).tolist() if n not in found]
        found.extend(new[: _NEIGHBOURS[at != start]])
    return found[1 : NODES + 1]
