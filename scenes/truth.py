"""The truth of a collection's captions for its scenes, from the meanings in its `dataset.json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from hasse.scenes.entailment import Bools, SceneTable
from hasse.scenes.scene import Scene, Statement

Rows = npt.NDArray[np.int64]
Meanings = Sequence[Mapping[str, Any]]


class SceneTruth:
    """A caption holds of every scene that makes its statement true."""

    def __init__(self, scenes: Sequence[Scene], statements: Sequence[Statement]) -> None:
        """Take the scene of each picture, and the statement of each caption."""
        self._table, self._scenes = SceneTable(scenes), len(scenes)
        numbers: dict[str, int] = {}
        self._statements: list[Statement] = []
        for statement in statements:
            if numbers.setdefault(statement.text, len(numbers)) == len(self._statements):
                self._statements.append(statement)
        self._numbers = [numbers[statement.text] for statement in statements]
        # One bit for each scene and distinct statement, computed at the first question about it.
        self._known: dict[int, npt.NDArray[np.uint8]] = {}

    @classmethod
    def read(cls, images: Meanings, captions: Meanings) -> Self | None:
        """Read the meanings of pictures and captions; None if they are not those of scenes."""
        try:
            scenes = [Scene.from_json(meaning) for meaning in images]
            return cls(scenes, [Statement.from_json(meaning) for meaning in captions])
        except (KeyError, TypeError):
            return None

    def holds(self, images: Rows, captions: Rows) -> Bools:
        """Tell which captions hold of which images: (I,), (C,) -> (I, C)."""
        return np.stack([self._of(self._numbers[c])[images] for c in captions], axis=1)

    def entails(self, premises: Rows, hypotheses: Rows) -> Bools:
        """Tell which captions follow from which: (P,), (H,) -> (P, H)."""
        table = SceneTable([self._statements[self._numbers[c]] for c in premises])
        conclusions = [self._statements[self._numbers[c]] for c in hypotheses]
        return np.stack([table.holds(statement) for statement in conclusions], axis=1)

    def _of(self, statement: int) -> Bools:
        bits = self._known.get(statement)
        if bits is None:
            bits = np.packbits(self._table.holds(self._statements[statement]))
            self._known[statement] = bits
        return np.unpackbits(bits, count=self._scenes).astype(np.bool_)
