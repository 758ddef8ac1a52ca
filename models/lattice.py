"""Composition of points beyond `models.order`: a thing with one part exchanged for another.

In the order, "this picture, but blue where it is red" is no join and no meet: something has to go
before something else can come. Kiros et al. ("Unifying Visual-Semantic Embeddings with Multimodal
Neural Language Models", section 3.2) add and subtract words in a space of directions; here every
coordinate says how much of something there is, and a thing that is joined on is there in full.
`benchmarks/lattice.py` compares the ways.

Shapes: N is the dimension of a point, P and M are numbers of points.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import normalize

from models.order import join
from models.score import Score

# How much of the rest stays where something was taken out, for what comes in to count: measured.
STAYS = 0.7


def exchanged(score: Score, like: Tensor, plus: Tensor, minus: Tensor) -> Tensor:
    """Return `like` with `plus` in the place of `minus`: (N,), (P, N), (M, N) -> (N,).

    What the join of `minus` has is taken off, down to 0 at most, of the rest `STAYS` stays, and the
    join of `plus` is joined on: so all of `plus` is there, and with nothing taken out this is the
    join. Reversed order mirrors it, and cosine adds and subtracts. At least one `plus`.
    """
    if score == "cosine":
        return normalize(like + plus.sum(0) - minus.sum(0), dim=0)
    if score == "order-reversed":
        top = max(float(points.max()) for points in (like, plus, minus) if len(points))
        return top - exchanged("order", top - like, top - plus, top - minus)
    rest = STAYS * (like - minus.amax(0)).clamp(min=0) if len(minus) else like
    return join(rest, plus.amax(0))
