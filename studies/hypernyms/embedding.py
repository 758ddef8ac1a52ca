"""Concepts as points in a lookup table, and three ways to compare a pair of them.

`order` is the paper's: the violation E(below, above), 0 where each coordinate of `below` is at
least that of `above`. The others are its baselines (Vendrov et al., Table 1): `symmetric`, one
minus the cosine, and `bilinear`, one minus below^T W above (Socher et al., 2013), with W learned.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from hasse.lab.kernels.violations import violation
from hasse.studies.hypernyms.taxonomy import Edges
from hasse.studies.labelled_pairs import Penalties

Comparison = Literal["order", "symmetric", "bilinear"]
COMPARISONS: tuple[Comparison, ...] = get_args(Comparison)

BLOCK_PAIRS = 1 << 16


class ConceptEmbedding:
    """Points of concepts (C, N), with the relation (N, N) of the bilinear comparison."""

    def __init__(self, comparison: Comparison, points: Tensor, relation: Tensor | None) -> None:
        self.comparison = comparison
        self.points = points
        self.relation = relation

    @classmethod
    def random(
        cls, comparison: Comparison, concepts: int, dimension: int, seed: int
    ) -> ConceptEmbedding:
        """Draw the points that training starts from.

        Points of the order start near the origin, where everything is above everything, and are
        pushed apart from there; the symmetric comparisons need directions from the start.
        """
        draw = torch.Generator().manual_seed(seed)
        if comparison == "order":
            return cls(comparison, 0.1 * torch.rand(concepts, dimension, generator=draw), None)
        points = torch.randn(concepts, dimension, generator=draw) / dimension**0.5
        relation = torch.randn(dimension, dimension, generator=draw) / dimension**0.5
        return cls(comparison, points, relation if comparison == "bilinear" else None)

    def compare(self, below: Tensor, above: Tensor) -> Tensor:
        """Return the penalty of points: (..., N), (..., N) -> (...); lower is likelier true."""
        if self.comparison == "order":
            return violation(below, above)
        if self.comparison == "symmetric":
            return 1 - cosine_similarity(below, above, dim=-1)
        mapped = below if self.relation is None else below @ self.relation
        return 1 - (mapped * above).sum(-1)

    @torch.inference_mode()
    def penalties(self, pairs: Edges, block_pairs: int = BLOCK_PAIRS) -> Penalties:
        """Return the penalty of pairs of concepts: (n, 2) -> (n,)."""
        out = np.empty(len(pairs), dtype=np.float32)
        for start in range(0, len(pairs), block_pairs):
            block = torch.from_numpy(pairs[start : start + block_pairs])
            below, above = self.points[block[:, 0]], self.points[block[:, 1]]
            out[start : start + block_pairs] = self.compare(below, above).numpy()
        return out

    @torch.inference_mode()
    def penalties_above(self, concept: int) -> Penalties:
        """Return the penalty of every concept being above one: (C,)."""
        below = self.points[concept].expand_as(self.points)
        return np.asarray(self.compare(below, self.points).numpy())

    @torch.inference_mode()
    def depth(self) -> Penalties:
        """Return how far each concept lies from the top: (C,).

        It is the sum of coordinates: whatever precedes another has the greater one, so sorting
        by it puts the specific before the general, without contradicting the order anywhere.
        """
        return np.asarray(self.points.sum(-1).numpy())
