"""Composition of points beyond `models.order`: a thing with one part exchanged for another.

In the order, "this picture, but blue where it is red" is no join and no meet: something has to go
before something else can come. Kiros et al. ("Unifying Visual-Semantic Embeddings with Multimodal
Neural Language Models", section 3.2) add and subtract words in a space of directions; here every
coordinate says how much of something there is, so that what is exchanged can be told apart from
what stays. `benchmarks/lattice.py` compares the ways.

Shapes: N is the dimension of a point, P and M are numbers of points.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize

from models.score import Score


def exchanged(score: Score, like: Tensor, plus: Tensor, minus: Tensor) -> Tensor:
    """Return `like` with `plus` in the place of `minus`: (N,), (P, N), (M, N) -> (N,).

    Where the join of `minus` is above that of `plus`, the coordinate becomes that of `plus`;
    elsewhere it is the join of `like` and `plus`. So with nothing taken out this is the join.
    Reversed order mirrors it, and cosine adds and subtracts. At least one `plus`.
    """
    if score == "cosine":
        return normalize(like + plus.sum(0) - minus.sum(0), dim=0)
    if score == "order-reversed":
        top = 1 + max(float(like.max()), float(plus.max()))
        return top - exchanged("order", top - like, top - plus, top - minus)
    wanted = plus.amax(0)
    unwanted = minus.amax(0) if len(minus) else torch.zeros_like(wanted)
    return torch.where(unwanted > wanted, wanted, torch.maximum(like, wanted))
