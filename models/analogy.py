"""Substitute one concept of a point for another: "this picture, but blue where it is red".

In the order this is neither a join nor a meet: something has to be removed before something else
is added. Kiros et al. ("Unifying Visual-Semantic Embeddings with Multimodal Neural Language
Models", section 3.2) add and subtract vectors of words. Here each coordinate is an amount of
something, which is subtracted, and the new point is joined. `studies/tables/lattice.py` compares
both methods.

Shapes: N is the dimension of a point, P and M are numbers of points.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import numpy as np

from hasse.models.embedding_model import Points
from hasse.models.score import Score
from hasse.models.vocabulary import words

# Weight of the rest of a point in a substitution. With a lower weight the new concept is found more
# often if no picture has all of the rest; with nine tenths the rest is found twice as often if one
# has. Measured on validation.
REST_WEIGHT = 0.9
STEP_AWAY = 0.5  # of the way from the points that hits should be less like
MAX_REWORDED = 8  # captions that give a word's meaning in a picture; more do not help


def feedback_point(score: Score, similar: Points, dissimilar: Points) -> Points:
    """Return the mean of `similar`, moved away from that of `dissimilar`: (P, N), (M, N) -> (N,).

    This is relevance feedback after Rocchio ("Relevance Feedback in Information Retrieval", 1971),
    with `STEP_AWAY` as the share of the way between both. At least one point is similar.
    """
    point: Points = similar.mean(0)
    if len(dissimilar):
        point = point + np.float32(STEP_AWAY) * (point - dissimilar.mean(0))
    return _unit(point) if score == "cosine" else np.maximum(point, np.float32(0))


def substitute(
    score: Score, like: Points, plus: Points, minus: Points, rest_weight: float = REST_WEIGHT
) -> Points:
    """Return `like` with `plus` instead of `minus`: (N,), (P, N), (M, N) -> (N,).

    The join of `minus` is subtracted, down to 0, the rest is multiplied by `rest_weight`, and the
    result is joined with the join of `plus`. Without `minus` this is the join of all; without
    `plus` the rest is not multiplied. Reversed order mirrors it, and cosine adds and subtracts.
    """
    if score == "cosine":
        return _unit(like + plus.sum(0) - minus.sum(0))
    if score == "order-reversed":
        top = max(points.max() for points in (like, plus, minus) if len(points))
        mirrored: Points = top - substitute(
            "order", top - like, top - plus, top - minus, rest_weight
        )
        return mirrored
    if len(minus):
        like = np.maximum(like - minus.max(0), np.float32(0))
    if not len(plus):
        return like
    joined: Points = np.maximum(np.float32(rest_weight) * like if len(minus) else like, plus.max(0))
    return joined


def _unit(point: Points) -> Points:
    unit: Points = point / max(np.linalg.norm(point), np.float32(1e-12))
    return unit


def is_single_word(text: str) -> bool:
    """Return whether a text is a single word."""
    return len(words(text)) == 1


def reword_captions(captions: Iterable[str], minus: str, plus: str) -> dict[str, str]:
    """Return the shortest captions that contain `minus`, each with `plus` instead.

    The point of a single word is vague, because encoders learn from captions. Captions that are
    true of a picture give the words a context: "a blue ball" becomes "a red ball". The shortest
    say the least besides. Returns at most the first `MAX_REWORDED`.
    """
    (old,), (new,) = words(minus), words(plus)
    containing = [split for split in map(words, captions) if old in split]
    length = min(map(len, containing), default=0)
    shortest = dict.fromkeys(" ".join(split) for split in containing if len(split) == length)
    return {
        caption: " ".join(new if word == old else word for word in caption.split())
        for caption in islice(shortest, MAX_REWORDED)
    }
