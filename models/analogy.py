"""Substitute one concept of a point for another: "this picture, but blue where it is red".

In the order this is no join and no meet: something has to be removed before something else is
added. Kiros et al. ("Unifying Visual-Semantic Embeddings with Multimodal Neural Language Models",
section 3.2) add and subtract vectors of words. Here each coordinate says how much of something
there is, and a point that is joined is there in full. `studies/tables/lattice.py` compares
the ways.

Shapes: N is the dimension of a point, P and M are numbers of points.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import numpy as np

from hasse.models.embedding_model import Points
from hasse.models.score import Score
from hasse.models.vocabulary import words

# Share of the rest that stays, so that what is added counts. With less the exchange holds more
# often where no picture keeps all else; with nine tenths all else is kept twice as often where one
# does. Measured on validation.
STAYS = 0.9
AWAY = 0.5  # of the way from what hits should be less like
REWORDED = 8  # captions that show the meaning of a word in a picture; more add nothing


def feedback_point(score: Score, similar: Points, others: Points) -> Points:
    """Return the middle of `similar`, moved away from that of `others`: (P, N), (M, N) -> (N,).

    This is relevance feedback after Rocchio ("Relevance Feedback in Information Retrieval", 1971),
    with the step `AWAY` as a share of the way between both. There is at least one similar point.
    """
    point: Points = similar.mean(0)
    if len(others):
        point = point + np.float32(AWAY) * (point - others.mean(0))
    return _unit(point) if score == "cosine" else np.maximum(point, np.float32(0))


def substitute(
    score: Score, like: Points, plus: Points, minus: Points, stays: float = STAYS
) -> Points:
    """Return `like` with `plus` in the place of `minus`: (N,), (P, N), (M, N) -> (N,).

    The join of `minus` is subtracted, down to 0, the share `stays` of the rest stays, and the
    result is joined with the join of `plus`. Without `minus` this is the join of all. Reversed
    order mirrors it, and cosine adds and subtracts. Without `plus` all of the rest stays.
    """
    if score == "cosine":
        return _unit(like + plus.sum(0) - minus.sum(0))
    if score == "order-reversed":
        top = max(points.max() for points in (like, plus, minus) if len(points))
        mirrored: Points = top - substitute("order", top - like, top - plus, top - minus, stays)
        return mirrored
    if len(minus):
        like = np.maximum(like - minus.max(0), np.float32(0))
    if not len(plus):
        return like
    joined: Points = np.maximum(np.float32(stays) * like if len(minus) else like, plus.max(0))
    return joined


def _unit(point: Points) -> Points:
    unit: Points = point / max(np.linalg.norm(point), np.float32(1e-12))
    return unit


def is_bare(text: str) -> bool:
    """Tell whether a text is a single word."""
    return len(words(text)) == 1


def reworded(captions: Iterable[str], minus: str, plus: str) -> dict[str, str]:
    """Return the shortest captions that contain `minus`, each with `plus` in its place.

    The point of a single word is vague, since encoders learned captions. The captions that are true
    of a picture tell what "red" for "blue" means in it: "a blue ball" becomes "a red ball". The
    shortest tell nothing else; at most the first `REWORDED` are taken.
    """
    (old,), (new,) = words(minus), words(plus)
    containing = [split for split in map(words, captions) if old in split]
    least = min(map(len, containing), default=0)
    shortest = dict.fromkeys(" ".join(split) for split in containing if len(split) == least)
    return {
        caption: " ".join(new if word == old else word for word in caption.split())
        for caption in islice(shortest, REWORDED)
    }
