"""Which captions lead, in collections of any kind."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from hasse.index.search.query import Answer, Query, RowCounts, Seconds
from hasse.index.store import Index
from hasse.index.types import CaptionRow, Points
from hasse.models.calibration import Calibration, Calibrations, further_words
from hasse.models.checkpoints.checkpoint import Checkpoint
from hasse.models.embedding_model import EmbeddingModel
from hasse.models.vocabulary import Vocabulary
from hasse.service.core.caption_order import DEPTH, CaptionOrder
from hasse.service.verdict import SHOWS

CURVE = Calibration((0.1, 0.4), (0.99, 0.01), 0.25, pairs=2, true=1, word_weight=0.01)


@dataclass
class Captions:
    """Stands for an index: captions with their violations, and how deep it was searched."""

    texts: list[str]
    violations: Points
    depths: list[int] = field(default_factory=list)

    @property
    def catalog(self) -> Captions:
        return self

    def captions(self, ids: list[int]) -> dict[int, CaptionRow]:
        return {at: CaptionRow(at, 1, self.texts[at]) for at in ids}

    def search_batch(self, query: Query, points: Points) -> list[Answer]:
        self.depths.append(query.k)
        ids = np.argsort(self.violations, kind="stable")[: query.k]
        work, seconds = RowCounts(*[0] * 6), Seconds(0, 0)
        found = (ids, self.violations[ids], query.mode, True, 0, 0, 1, "", work, seconds)
        return [Answer(*found)] * len(points)


@dataclass
class Words:
    """Stands for a model, of which only the words are read."""

    vocabulary: Vocabulary


def caption_order(calibration: Calibration | None = CURVE) -> CaptionOrder:
    model = cast(EmbeddingModel, Words(Vocabulary(["word"])))
    known = Calibrations(calibration)
    return CaptionOrder(Checkpoint(model, "words", "", known, {}, Path()))


def led(captions: Captions, k: int, calibration: Calibration | None = CURVE) -> list[int]:
    point = np.zeros((1, 1), np.float32)
    (answer,) = caption_order(calibration).search(cast(Index, captions), Query("caption", k), point)
    ids: list[int] = answer.ids.tolist()
    assert answer.violations.tolist() == captions.violations[ids].tolist()
    return ids


def by_definition(captions: Captions, k: int) -> list[int]:
    """Order all captions as the documentation says it, one by one."""
    nearest = np.argsort(captions.violations, kind="stable").tolist()

    def key(place: int, at: int) -> tuple[bool, float]:
        further, violation = further_words(captions.texts[at]), float(captions.violations[at])
        probability = float(CURVE.of_texts([captions.texts[at]], [violation])[0])
        if place >= DEPTH or probability < SHOWS:
            return True, violation
        return False, violation - 0.02 * (further if probability >= 0.95 else min(5, further))

    places = sorted(range(len(nearest)), key=lambda place: key(place, nearest[place]))
    return [nearest[place] for place in places[:k]]


@pytest.mark.parametrize("least", [0.0, 0.2, 0.24])
@pytest.mark.parametrize("k", [1, 20, 1500])
def test_leading_of_any_collection_is_what_its_definition_says(least: float, k: int) -> None:
    draws = np.random.default_rng(k)
    texts = [" ".join(["word"] * count) for count in draws.integers(1, 12, 2000)]
    captions = Captions(texts, draws.uniform(least, 0.5, 2000).astype(np.float32))
    assert led(captions, k) == by_definition(captions, k)


def test_leading_of_long_captions_needs_no_deep_search() -> None:
    texts = ["word " * 8] * 3000
    captions = Captions(texts, np.linspace(0.0, 0.5, 3000, dtype=np.float32))
    captions.violations += 0.15
    captions.violations[50:] += 0.1
    assert led(captions, 10) == list(range(10))
    assert captions.depths == [128]


def test_caption_without_a_known_word_and_all_without_calibration_never_lead() -> None:
    violations = np.array([0.1, 0.12, 0.15], np.float32)
    captions = Captions(["word", "xyzzy " * 8, "word " * 6], violations)
    assert led(captions, 3) == [2, 0, 1]
    assert led(captions, 3, None) == [0, 1, 2]
