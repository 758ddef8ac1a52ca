"""Pairs of a hierarchy to learn from, and pairs withheld to measure with.

Two protocols:

`paper` (Vendrov et al., section 3.2, as its code does it): edges of the transitive closure are
counted once for each path that joins them, so an edge can stand both in training and in test;
false pairs are true ones with one end replaced at random, whether the result is true or not.
Some of the false pairs are therefore true, and nobody can reach 100 %.

`clean`: edges are distinct, so training, validation and test are disjoint; false pairs are
checked to be false.

By either, most of what is withheld follows from the training edges by transitivity, and what
follows from these is learned with them.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hasse.studies.hypernyms.taxonomy import Edges, HypernymError, Taxonomy

Protocol = Literal["paper", "clean"]
HELD_OUT = 4000  # true pairs of validation, and as many of test, as in the paper


class PairSet:
    """Pairs of concepts, for the question whether one of them is among them."""

    def __init__(self, pairs: Edges, concepts: int) -> None:
        self._concepts = concepts
        self._codes = np.unique(self._code(pairs))

    def __len__(self) -> int:
        """Count the distinct pairs."""
        return len(self._codes)

    def __contains__(self, pair: tuple[int, int]) -> bool:
        """Tell whether one pair is among them."""
        return bool(self.holds(np.array([pair]))[0])

    def holds(self, pairs: Edges) -> NDArray[np.bool_]:
        """Tell which pairs are among them: (n, 2) -> (n,)."""
        if not len(self._codes):
            return np.zeros(len(pairs), dtype=np.bool_)
        codes = self._code(pairs)
        at = np.searchsorted(self._codes, codes)
        at[at == len(self._codes)] = 0
        return np.asarray(self._codes[at] == codes)

    def _code(self, pairs: Edges) -> NDArray[np.int64]:
        return np.asarray(pairs[:, 0] * self._concepts + pairs[:, 1])


@dataclass(frozen=True, slots=True)
class LabelledPairs:
    """Pairs (n, 2) and which of them are called true (n,)."""

    pairs: Edges
    true: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Task:
    """Edges to learn from, and labelled pairs, half of them false, to be measured on.

    Attributes:
        concepts: how many there are.
        train: (n, 2); under the paper's protocol an edge comes once for each of its paths.
        validation: for choosing thresholds and the epoch.
        test: for the figure that is reported.
        oracle: the accuracy on test of one who knows the whole hierarchy.
    """

    protocol: Protocol
    concepts: int
    train: Edges
    validation: LabelledPairs
    test: LabelledPairs
    oracle: float

    @property
    def fingerprint(self) -> str:
        """Return the SHA-256 of the withheld pairs, which differs between tasks."""
        digest = hashlib.sha256(self.protocol.encode())
        for held in (self.validation, self.test):
            digest.update(np.ascontiguousarray(held.pairs, dtype="<i8").tobytes())
        return digest.hexdigest()


def make_task(
    taxonomy: Taxonomy, protocol: Protocol, seed: int = 0, held_out: int = HELD_OUT
) -> Task:
    """Split a hierarchy's transitive closure and draw false pairs; the seed decides all of it.

    Raises:
        HypernymError: the hierarchy has too few edges for what is to be withheld.
    """
    distinct, ways = taxonomy.paths()
    edges = np.repeat(distinct, ways, axis=0) if protocol == "paper" else distinct
    if held_out < 1 or len(edges) <= 2 * held_out:
        raise HypernymError(
            f"the hierarchy has {len(edges):,} pairs of a concept and one above it, too few to "
            f"withhold twice {held_out:,} of them: withhold fewer (at least 1)"
        )
    draw = np.random.default_rng(seed)
    edges = edges[draw.permutation(len(edges))]
    known = PairSet(distinct, len(taxonomy))
    held = []
    for start in (0, held_out):
        true = edges[start : start + held_out]
        false = corrupt(true, len(taxonomy), draw, known if protocol == "clean" else None)
        label = np.repeat([True, False], held_out)
        held.append(LabelledPairs(np.concatenate((true, false)), label))
    validation, test = held
    oracle = float((known.holds(test.pairs) == test.true).mean())
    return Task(protocol, len(taxonomy), edges[2 * held_out :], validation, test, oracle)


def corrupt(
    edges: Edges,
    concepts: int,
    draw: np.random.Generator,
    known: PairSet | None = None,
    specific: float = 0.5,
) -> Edges:
    """Replace one end of each edge by a random concept: (n, 2) -> (n, 2).

    Args:
        known: pairs not to make; a concept is not paired with itself then either.
        specific: how often it is the more specific end that is replaced.

    Raises:
        HypernymError: an edge has no false neighbour that could be found.
    """
    out = edges.copy()
    rest = np.arange(len(edges))
    for _ in range(1000):
        side = (draw.random(len(rest)) >= specific).astype(np.int64)
        out[rest] = edges[rest]
        out[rest, side] = draw.integers(0, concepts, len(rest))
        if known is None:
            return out
        bad = known.holds(out[rest]) | (out[rest, 0] == out[rest, 1])
        rest = rest[bad]
        if not len(rest):
            return out
    raise HypernymError(
        "no false pairs can be drawn: nearly all pairs of this hierarchy are true; it is too "
        "small for the clean protocol"
    )
