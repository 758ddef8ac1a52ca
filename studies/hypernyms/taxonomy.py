"""Concepts and their hypernyms: a directed graph without cycles, and what follows from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hasse.models.errors import HasseError
from hasse.studies.wordnet.synsets import FILE_NAME, read_synsets

Edges = NDArray[np.int64]  # (n, 2): the more specific concept, the more general one


class HypernymError(HasseError):
    """A hierarchy that cannot be used; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Concept:
    """A set of words that mean one thing.

    Attributes:
        key: what the source calls it; WordNet's is the synset's offset, "02084071".
        words: the words, the most usual first.
        gloss: what they mean.
    """

    key: str
    words: tuple[str, ...]
    gloss: str = ""

    @property
    def name(self) -> str:
        """Return the first word, as it is written in a sentence."""
        return self.words[0].replace("_", " ")


class Taxonomy:
    """Concepts, numbered in their order, and the direct hypernyms of each."""

    def __init__(self, concepts: Sequence[Concept], edges: Edges) -> None:
        """Take concepts and direct edges (E, 2).

        Raises:
            HypernymError: the edges go round in a circle, which is named.
        """
        self.concepts = tuple(concepts)
        self.edges = edges
        self._parents: list[list[int]] = [[] for _ in concepts]
        for below, above in edges.tolist():
            self._parents[below].append(above)
        self._order = self._general_first()

    def __len__(self) -> int:
        """Count the concepts."""
        return len(self.concepts)

    def paths(self) -> tuple[Edges, NDArray[np.int64]]:
        """Return the transitive closure: (n, 2) distinct pairs, and the ways up that join each.

        A depth-first walk from every concept meets an ancestor once for each way that leads up
        to it; the pairs that the paper counts are these.
        """
        above: list[Counter[int]] = [Counter() for _ in self.concepts]
        for concept in self._order:
            for parent in self._parents[concept]:
                above[concept][parent] += 1
                above[concept].update(above[parent])
        counts = [len(each) for each in above]
        below = np.repeat(np.arange(len(above)), counts)
        total = int(sum(counts))
        ends = np.fromiter((a for each in above for a in each), np.int64, total)
        ways = np.fromiter((w for each in above for w in each.values()), np.int64, total)
        return np.stack((below, ends), 1), ways

    def ancestors(self, concept: int) -> set[int]:
        """Return all concepts above one, itself not among them."""
        found: set[int] = set()
        rest = list(self._parents[concept])
        while rest:
            parent = rest.pop()
            if parent not in found:
                found.add(parent)
                rest.extend(self._parents[parent])
        return found

    def senses(self, word: str) -> list[int]:
        """Return the concepts that a word may mean, the likeliest first, or the one of that key.

        Likelier is what is written the same way, and what is called so before anything else.
        """
        name = word.strip().replace(" ", "_")
        ranked: list[tuple[bool, int, int]] = []
        for at, concept in enumerate(self.concepts):
            if name == concept.key:
                return [at]
            lower = [each.lower() for each in concept.words]
            if name.lower() in lower:
                place = lower.index(name.lower())
                ranked.append((concept.words[place] != name, place, at))
        return [at for _, _, at in sorted(ranked)]

    def _general_first(self) -> list[int]:
        """Order the concepts so that each comes after all its hypernyms."""
        waiting = [len(parents) for parents in self._parents]
        children: list[list[int]] = [[] for _ in self._parents]
        for below, above in self.edges.tolist():
            children[above].append(below)
        order = [concept for concept, count in enumerate(waiting) if count == 0]
        for concept in order:  # grows while it is read
            for child in children[concept]:
                waiting[child] -= 1
                if waiting[child] == 0:
                    order.append(child)
        if len(order) < len(self):
            raise HypernymError(
                f"the hypernyms go round in a circle: {self._circle(waiting)}; nothing is more "
                f"general than itself: take out one of these pointers"
            )
        return order

    def _circle(self, waiting: list[int]) -> str:
        """Name the concepts of a circle, starting from one that still waits for its hypernyms."""
        at = next(concept for concept, count in enumerate(waiting) if count)
        seen: list[int] = []
        while at not in seen:
            seen.append(at)
            at = next(parent for parent in self._parents[at] if waiting[parent])
        circle = [*seen[seen.index(at) :], at]
        named = [f"{self.concepts[c].name} ({self.concepts[c].key})" for c in circle]
        if len(named) > 8:
            named = [*named[:4], f".. {len(named) - 8} more ..", *named[-4:]]
        return " -> ".join(named)


def closure(edges: Edges) -> Edges:
    """Return all pairs (n, 2) that follow from some edges; raises HypernymError on a circle."""
    size = int(edges.max(initial=-1)) + 1
    taxonomy = Taxonomy([Concept(str(at), (str(at),)) for at in range(size)], edges)
    return taxonomy.paths()[0]


def read_wordnet(path: Path) -> Taxonomy:
    """Read the nouns of WordNet, `data.noun` or its folder, and their hypernyms.

    Raises:
        AbstractionError: the file cannot be read.
        HypernymError: it has no synset or one twice, a pointer leads to no synset, or the
            hypernyms go round in a circle; the place is named.
    """
    numbers: dict[str, int] = {}
    synsets = list(read_synsets(path))
    for synset in synsets:
        if synset.key in numbers:
            raise HypernymError(f"{path}, line {synset.line}: synset {synset.key} comes twice")
        numbers[synset.key] = len(numbers)
    if not synsets:
        raise HypernymError(f"{path} holds no synset: give WordNet's {FILE_NAME}")
    concepts = [Concept(one.key, one.words, one.gloss) for one in synsets]
    edges: set[tuple[int, int]] = set()
    for below, synset in enumerate(synsets):
        for offset in synset.above:
            if offset not in numbers:
                raise HypernymError(
                    f"{path}, line {synset.line}: {concepts[below].name} ({synset.key}) points "
                    f"to {offset} as its hypernym, and there is no such synset: the file is not "
                    f"whole, fetch it again"
                )
            edges.add((below, numbers[offset]))
    return Taxonomy(concepts, np.array(sorted(edges), dtype=np.int64).reshape(-1, 2))
