"""The Hasse diagram around a caption or an image: its neighbours above and below in the order.

If the model is calibrated for pairs of captions, captions are compared directly. Other models only
know which captions are true of which pictures, so captions are compared through pictures. On
scenes, with known truth, direct comparison is far better (`python -m hasse.studies.tables.scenes`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from hasse.index.types import CaptionHitRow, CaptionRow, Points
from hasse.models.diagram import (
    Relation,
    by_pictures,
    classes,
    covering_pairs,
    depths,
    transitive_closure,
)
from hasse.models.score import penalties_between
from hasse.service.core.engine import Engine
from hasse.service.questions.pipeline import AnswerBuilder, Fields, encode, search, stored_points
from hasse.service.questions.requests import DiagramQuery, DistinctOptions, SearchOptions
from hasse.service.telemetry.stages import Stages
from hasse.service.verdict import SHOWS

NODES = 14
_NEIGHBOURS = (5, 2)  # maximum in one direction of the focus, and of any other node
_PICTURES = 250  # best pictures for the caption, and as many others, to compare captions
_CAPTIONS = 160
_IMAGES_WITH_CAPTIONS = 60  # best images for a caption, which give captions
_JOINT_IMAGES = 3  # best images for a caption, to search their common captions
# Without calibration, the best quarter of all pairs counts as true.
_LIKELY_QUANTILE = 0.25


async def answer(engine: Engine, request: DiagramQuery, stages: Stages) -> AnswerBuilder:
    """Return the captions more general and more specific than a caption, or true of an image."""
    (point,) = await encode(engine, [request.middle], stages)
    if isinstance(request.middle, str):
        return await _around_caption(engine, request.middle, point, stages)
    return await _around_image(engine, int(request.middle), point, stages)


async def _around_caption(
    engine: Engine, caption: str, point: Points, stages: Stages
) -> AnswerBuilder:
    near = await search(engine, "image", point[None], SearchOptions(k=_PICTURES), stages)
    image_ids = [hit for hit in near.ranking.ids.tolist() if hit in near.images]
    rows = await _human_captions(engine, image_ids[:_IMAGES_WITH_CAPTIONS])
    best = await stored_points(engine, "image", image_ids[:_JOINT_IMAGES])
    if best:
        points = np.stack(list(best.values()))
        shared = await search(engine, "caption", points, _human(200), stages, joint=True)
        rows = [*shared.captions.values(), *rows]
    texts, points = await _captions(engine, [row for row in rows if row.text != caption])
    points = np.concatenate([point[None], points]) if texts else point[None]
    precedes = await _precedes(engine, [caption, *texts], points, image_ids, stages)
    return lambda: _diagram(engine, precedes, [caption, *texts], None)


async def _around_image(
    engine: Engine, image_id: int, point: Points, stages: Stages
) -> AnswerBuilder:
    result = await search(engine, "caption", point[None], _human(400), stages)
    own_captions = await _human_captions(engine, [image_id])
    hits = result.ranking.ids.tolist()
    rows = own_captions + [result.captions[hit] for hit in hits if hit in result.captions]
    knows = engine.vocabulary.knows
    texts, points = await _captions(engine, [row for row in rows if knows(row.text)])
    if texts:
        is_own = np.isin(texts, [row.text for row in own_captions])
        chosen = np.flatnonzero(is_own | _is_true(engine, point, points, texts))
        texts, points = [texts[at] for at in chosen], points[chosen]
    if not texts:
        empty = {"nodes": [], "edges": [], "model": engine.checkpoint.name, "unknown_words": []}
        return lambda: empty
    # The image is the bottom: it precedes all captions that are true of it.
    precedes = np.pad(await _precedes(engine, texts, points, [image_id], stages), ((1, 0), (1, 0)))
    precedes[0] = True
    return lambda: _diagram(engine, precedes, ["", *texts], image_id)


def _human(k: int) -> DistinctOptions:
    return DistinctOptions(k=k, distinct=False, written=False)


async def _human_captions(
    engine: Engine, image_ids: Sequence[int]
) -> list[CaptionRow | CaptionHitRow]:
    rows = await engine.in_catalog(lambda: engine.index.catalog.captions_of(image_ids))
    return [row for row in chain.from_iterable(rows.values()) if row.written_by is None]


async def _captions(
    engine: Engine, rows: Sequence[CaptionRow | CaptionHitRow]
) -> tuple[list[str], Points]:
    """Return the first distinct captions and their points (C, N), without deleted ones."""
    by_text: dict[str, CaptionRow | CaptionHitRow] = {}
    for row in rows:
        by_text.setdefault(row.text, row)
    chosen = list(by_text.values())[:_CAPTIONS]
    stored = await stored_points(engine, "caption", [row.id for row in chosen])
    chosen = [row for row in chosen if row.id in stored]
    points = np.array([stored[row.id] for row in chosen], np.float32)
    return [row.text for row in chosen], points


async def _precedes(
    engine: Engine, texts: Sequence[str], captions: Points, image_ids: Sequence[int], stages: Stages
) -> Relation:
    """Return the relation "caption i precedes caption j": (C, N) -> (C, C)."""
    judge = engine.checkpoint.judge("caption")
    if judge is not None:
        model = engine.checkpoint.model
        premises = model.as_premises(captions)
        violations = penalties_between(model.config.score, premises, captions)
        return np.asarray(judge.table(texts, premises, violations) >= SHOWS)
    # Every image precedes the origin, so this returns images of any content.
    origin, options = np.zeros_like(captions[:1]), SearchOptions(k=_PICTURES)
    others = await search(engine, "image", origin, options, stages)
    ids = list(dict.fromkeys([*image_ids, *others.ranking.ids.tolist()]))
    images = await stored_points(engine, "image", ids)
    if not images:
        return np.eye(len(captions), dtype=np.bool_)
    return by_pictures(_probabilities(engine, np.stack(list(images.values())), captions, texts))


def _is_true(
    engine: Engine, image: Points, captions: Points, texts: Sequence[str]
) -> NDArray[np.bool_]:
    """Return which captions count as true of an image (N,): (C,)."""
    return np.asarray(_probabilities(engine, image[None], captions, texts)[0] >= SHOWS)


def _probabilities(
    engine: Engine, images: Points, captions: Points, texts: Sequence[str]
) -> NDArray[np.float64]:
    """Return the probability of each caption for each image: (I, C)."""
    violations = penalties_between(engine.checkpoint.model.config.score, images, captions)
    judge = engine.judge
    if judge is not None:
        return judge.table(texts, images, violations)
    return np.asarray(violations <= np.quantile(violations, _LIKELY_QUANTILE), np.float64)


def _diagram(
    engine: Engine, precedes: Relation, names: Sequence[str], image_id: int | None
) -> Fields:
    """Return the diagram around the first element; `image_id` is set if that is an image."""
    preorder = transitive_closure(precedes)
    number = classes(preorder)
    _, first = np.unique(number, return_index=True)
    order = preorder[np.ix_(first, first)]
    focus = int(number[0])
    chosen = _around(covering_pairs(order), focus)
    covers = covering_pairs(order[np.ix_(chosen, chosen)])
    nodes = []
    for element, depth in zip(chosen, depths(covers), strict=True):
        is_above, is_below = order[focus, element], order[element, focus]
        place = "above" if is_above else "below" if is_below else "beside"
        nodes.append(
            {
                "captions": [
                    names[at] for at in np.flatnonzero(number == element).tolist() if names[at]
                ],
                "image_id": image_id if element == focus else None,
                "place": "focus" if element == focus else place,
                "depth": int(depth),
            }
        )
    return {
        "nodes": nodes,
        "edges": [
            {"lower": lower, "upper": upper} for lower, upper in np.argwhere(covers).tolist()
        ],
        "model": engine.checkpoint.name,
        "unknown_words": engine.vocabulary.unknown_words(names[0]),
    }


def _around(covers: Relation, start: int) -> list[int]:
    """Return up to `NODES` elements: `start`, and the nearest above and below it."""
    down = _steps(covers.T, start)
    up = _steps(covers, start)
    # Each direction gets half, and the places that the other does not need.
    below = down[: max(NODES // 2, NODES - 1 - len(up))]
    return [start, *up[: NODES - 1 - len(below)], *below]


def _steps(next_to: Relation, start: int) -> list[int]:
    """Return elements by their number of steps from `start`, without it."""
    reached = [start]
    for at in reached:
        new = [n for n in np.flatnonzero(next_to[at]).tolist() if n not in reached]
        reached.extend(new[: _NEIGHBOURS[at != start]])
    return reached[1 : NODES + 1]
