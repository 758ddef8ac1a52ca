"""Which words beside the classes demand nothing: a small WordNet, and points made up for texts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from hasse.studies.photographs import grounding
from hasse.studies.photographs.things import Things, Usage
from hasse.studies.wordnet.lexicon import Lexicon
from tests.wordnet import write_wordnet

BRANCH, AUTUMN, DOG = "00000004", "00000005", "00000006"


@pytest.mark.parametrize(("bird", "found"), [((0.8, 0.6), set()), ((0.6, 0.8), {"bird"})])
def test_a_noun_is_unlike_if_other_classes_are_nearer_than_those_it_demands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bird: tuple[float, float], found: set[str]
) -> None:
    monkeypatch.setattr(grounding, "_NEAREST", 1)
    lexicon = Lexicon.read(write_wordnet(tmp_path / "wordnet"))
    things = Things.choose(lexicon, Usage.of([]), (DOG, BRANCH, AUTUMN))
    points = {"a bird": bird, "a dog": (1, 0), "a branch": (0, 1), "an autumn": (0, 0)}

    def encode(texts: Sequence[str]) -> NDArray[np.float32]:
        return np.array([points[text] for text in texts], np.float32)

    assert grounding.unlike(things, ["bird", "dog", "branch"], encode) == found
