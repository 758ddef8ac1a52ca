"""Truth and entailment, exactly.

A statement is true of a scene when its descriptions fit distinct entities of the scene so that
every relation holds, and its place and sky lie above the scene's. It entails another when the
other is true of it, read as a scene that holds nothing but what it says: fits compose, so this
is sound, and that scene is itself a counterexample to everything not entailed, so it is
complete for the language under the hierarchy (facts that only the composer of scenes knows,
such as that snowmen stand in the snow, are not used).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import permutations

import numpy as np
import numpy.typing as npt

from hasse.scenes.scene import Facts, Scene, Situation, Statement, required_features

MAX_ENTITIES = 8  # one bit each in a byte

Bits = npt.NDArray[np.uint8]
Bools = npt.NDArray[np.bool_]


def holds(statement: Statement, scene: Scene) -> bool:
    """Tell whether a statement is true of a scene (slow: tries every assignment)."""
    return _fits(statement.situation, scene.situation.facts())


def entails(premise: Statement, hypothesis: Statement) -> bool:
    """Tell whether the hypothesis is true wherever the premise is."""
    return _fits(hypothesis.situation, premise.situation.facts())


def _fits(asked: Situation, facts: Facts) -> bool:
    if not facts.surroundings.issuperset(asked.surroundings(above=False)):
        return False
    return any(
        all(
            facts.features[at].issuperset(required_features(entity))
            for entity, at in zip(asked.entities, chosen, strict=True)
        )
        and all(
            (chosen[relation.subject], relation.name, chosen[relation.object]) in facts.related
            for relation in asked.relations
        )
        for chosen in permutations(range(len(facts.features)), len(asked.entities))
    )


class SceneTable:
    """Many scenes as bit columns, for the truth of one statement in all of them at once.

    A statement may stand for a scene: what is true of it is what the statement entails.
    """

    def __init__(self, scenes: Iterable[Scene | Statement]) -> None:
        """Index the scenes; raises ValueError for one of more than 8 entities."""
        facts = [scene.situation.facts() for scene in scenes]
        self._count = len(facts)
        self._slots = max((len(each.features) for each in facts), default=0)
        if self._slots > MAX_ENTITIES:
            raise ValueError(
                f"a scene has {self._slots} entities, at most {MAX_ENTITIES} are possible"
            )
        self._none: Bits = np.zeros(self._count, dtype=np.uint8)
        self._features: dict[str, Bits] = {}  # name -> (n,), bit i: entity i has it
        self._related: dict[str, Bits] = {}  # name -> (slots, n), bit j at i: i relates to j
        self._surroundings: dict[str, Bools] = {}  # name -> (n,)
        for row, each in enumerate(facts):
            for index, features in enumerate(each.features):
                for name in features:
                    if name not in self._features:
                        self._features[name] = self._none.copy()
                    self._features[name][row] |= 1 << index
            for subject, name, target in each.related:
                if name not in self._related:
                    self._related[name] = np.zeros((self._slots, self._count), dtype=np.uint8)
                self._related[name][subject, row] |= 1 << target
            for name in each.surroundings:
                if name not in self._surroundings:
                    self._surroundings[name] = np.zeros(self._count, dtype=np.bool_)
                self._surroundings[name][row] = True

    def __len__(self) -> int:
        return self._count

    def holds(self, statement: Statement) -> Bools:
        """Return (n,) of bool: of which scenes the statement is true."""
        asked = statement.situation
        answer = np.ones(self._count, dtype=np.bool_)
        for name in asked.surroundings(above=False):
            answer &= self._surroundings.get(name, False)
        able: list[Bits] = []
        for entity in asked.entities:
            bits = np.bitwise_and.reduce(
                [self._features.get(name, self._none) for name in required_features(entity)]
            )
            answer &= bits != 0
            able.append(bits)
        if len(able) < 2:
            return answer
        rows = np.flatnonzero(answer)
        links = {
            (relation.subject, relation.object, relation.name): self._links(relation.name, rows)
            for relation in asked.relations
        }
        answer[rows] = self._assign([bits[rows] for bits in able], links, ())
        return answer

    def _links(self, name: str, rows: npt.NDArray[np.intp]) -> Bits:
        table = self._related.get(name)
        if table is None:
            return np.zeros((self._slots, len(rows)), dtype=np.uint8)
        return table[:, rows]

    def _assign(
        self,
        able: list[Bits],
        links: dict[tuple[int, int, str], Bits],
        chosen: tuple[int, ...],
    ) -> Bools:
        """Choose a distinct slot for each described entity in turn; `chosen` are the first."""
        at = len(chosen)
        free = 0xFF & ~sum(1 << slot for slot in chosen)
        bits = able[at] & np.uint8(free)
        for (subject, target, _), table in links.items():
            if target == at and subject < at:
                bits = bits & table[chosen[subject]]
            elif subject == at and target < at:
                reach = (table >> np.uint8(chosen[target])) & 1  # (slots, n)
                weights = (1 << np.arange(self._slots, dtype=np.uint8))[:, None]
                bits = bits & (reach * weights.astype(np.uint8)).sum(0, dtype=np.uint8)
        if at == len(able) - 1:
            return np.asarray(bits != 0)
        answer = np.zeros(bits.shape, dtype=np.bool_)
        for slot in range(self._slots):
            here = (bits >> np.uint8(slot)) & 1 != 0
            if here.any():
                answer |= here & self._assign(able, links, (*chosen, slot))
        return answer
