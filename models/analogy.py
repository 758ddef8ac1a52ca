"""A thing with one part exchanged for another: composition of points beyond `models.order`.

In the order, "this picture, but blue where it is red" is no join and no meet: something has to go
before something else can come. Kiros et al. ("Unifying Visual-Semantic Embeddings with Multimodal
Neural Language Models", section 3.2) add and subtract words in a space of directions; here every
coordinate says how much of something there is, and a thing that is joined on is there in full.
`benchmarks/learning/lattice.py` compares the ways.

Shapes: N is the dimension of a point, P and M are numbers of points.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from torch import Tensor
from torch.nn.functional import normalize

from models.order import join
from models.score import Score
from models.vocabulary import words

# How much of the rest stays where something was taken out, for what comes in to count: a half
# finds the exchange more often, nine tenths more often in the same place. Measured on validation.
STAYS = 0.7
REWORDED = 8  # captions that say what a word means of a picture; more say the same again


def substitute(
    score: Score, like: Tensor, plus: Tensor, minus: Tensor, stays: float = STAYS
) -> Tensor:
    """Return `like` with `plus` in the place of `minus`: (N,), (P, N), (M, N) -> (N,).

    What the join of `minus` has is taken off, down to 0 at most, of the rest the share `stays`
    stays, and the join of `plus` is joined on: so all of `plus` is there, and with nothing taken
    out this is the join. Reversed order mirrors it, and cosine adds and subtracts. At least one
    `plus`.
    """
    if score == "cosine":
        return normalize(like + plus.sum(0) - minus.sum(0), dim=0)
    if score == "order-reversed":
        top = max(float(points.max()) for points in (like, plus, minus) if len(points))
        return top - substitute("order", top - like, top - plus, top - minus, stays)
    rest = stays * (like - minus.amax(0)).clamp(min=0) if len(minus) else like
    return join(rest, plus.amax(0))


def is_bare(text: str) -> bool:
    """Tell whether a text is one word, and so less than a caption."""
    return len(words(text)) == 1


def reworded(captions: Iterable[str], minus: str, plus: str) -> dict[str, str]:
    """Return the shortest of the captions that say one word, each with another in its place.

    The point of a word alone is vague: encoders have read captions. What "red" for "blue" means of
    a picture the captions tell that are true of it: "a blue ball" becomes "a red ball". The
    shortest say nothing beside; of many, the first `REWORDED` are taken.
    """
    (old,), (new,) = words(minus), words(plus)
    saying = [said for said in map(words, captions) if old in said]
    least = min(map(len, saying), default=0)
    shortest = dict.fromkeys(" ".join(said) for said in saying if len(said) == least)
    return {
        said: " ".join(new if word == old else word for word in said.split())
        for said in islice(shortest, REWORDED)
    }
