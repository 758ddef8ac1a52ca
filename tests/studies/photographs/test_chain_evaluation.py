"""Measures of truth on chains: perfect, reversed, and against a plain count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hasse.models.datasets import Caption, Dataset, DatasetError, Image
from hasse.models.embedding_model import Points
from hasse.studies.photographs.chain_calibration import ChainedImages, calibrate_chains
from hasse.studies.photographs.chain_evaluation import (
    Pairs,
    coherence,
    hierarchy,
    measure,
    pair,
    reliability,
)
from hasse.studies.photographs.chain_report import DEEPEST, depths
from hasse.studies.photographs.chains import Chain

CHAINS = [
    Chain(1, ("animal", "dog", "a red dog"), ("beast",)),
    Chain(2, ("vehicle", "car", "a blue car")),
    Chain(3, ("animal", "cat", "a white cat")),
]


def dataset() -> Dataset:
    images = tuple(
        Image(n, f"{n}.jpg", Path(f"{n}.jpg"), captions=(Caption(n, n, chain.texts[-1]),))
        for n, chain in enumerate(CHAINS, start=1)
    )
    return Dataset("three", images)


def pairs() -> Pairs:
    return pair(dataset(), CHAINS)[0]


def test_pair_leaves_out_what_follows_from_the_other_picture() -> None:
    found = pairs()
    false = {
        (int(image), found.texts[text])
        for image, text, true in zip(found.images, found.text_rows, found.true, strict=True)
        if not true
    }
    assert false
    assert not {(0, "animal"), (2, "animal")} & false
    assert sum(found.true) == 9


def test_pair_of_one_picture_is_refused() -> None:
    with pytest.raises(DatasetError, match="give more chains"):
        pair(dataset(), CHAINS[:1])


def test_measure_of_perfect_truth_is_one() -> None:
    found = pairs()
    measured = measure(found, found.true - 0.1 * found.levels)
    assert measured["all"]["auc"]["value"] == measured["all"]["average_precision"]["value"] == 1
    assert measured["tau"]["value"] == measured["in_order"]["value"] == 1
    assert measured["specific_true_general_false"]["auc"]["value"] == 1


def test_measure_of_the_specific_as_truer_has_a_tau_of_minus_one() -> None:
    found = pairs()
    assert measure(found, found.levels.astype(float))["tau"]["value"] == -1


def test_coherence_counts_general_texts_that_are_less_probable_than_specific_ones() -> None:
    found = pairs()
    falling = coherence(found, np.array([0.9, 0.8, 0.7])[found.levels])
    assert falling["agreeing"]["value"] == falling["likely"]["value"] == 1
    rising = coherence(found, np.array([0.2, 0.4, 0.6])[found.levels])
    assert rising["agreeing"]["value"] == rising["likely"]["value"] == 0
    near = coherence(found, np.array([0.6, 0.52, 0.56])[found.levels])
    assert near["agreeing"]["value"] == near["likely"]["value"] == 1


def test_measure_counts_ties_half_and_agrees_with_a_plain_count() -> None:
    found, draw = pairs(), np.random.default_rng(0)
    truth = draw.integers(0, 4, len(found.true)).astype(float)
    true, false = truth[found.true], truth[~found.true]
    wins = np.sign(np.subtract.outer(true, false))
    assert measure(found, truth)["all"]["auc"]["value"] == pytest.approx((wins.mean() + 1) / 2)
    equal = measure(found, np.zeros(len(found.true)))
    assert equal["all"]["auc"]["value"] == 0.5
    assert equal["tau"]["value"] == 0


def test_measure_has_intervals_around_the_values() -> None:
    found = pairs()
    truth = np.random.default_rng(1).random(len(found.true))
    measured = measure(found, truth)["all"]["auc"]
    assert measured["low"] <= measured["value"] <= measured["high"]


def test_hierarchy_of_a_perfect_tree_finds_some_chain_of_each_picture_at_each_level() -> None:
    chains = [*CHAINS, Chain(1, ("pet", "a small pet"))]
    found, kept = pair(dataset(), chains)
    level_of = dict(zip(found.text_rows.tolist(), found.levels.tolist(), strict=True))
    distances = np.array([float(level_of[row]) for row in range(len(found.texts))])
    own = {(chain.image_id, text) for chain in chains for text in chain.texts}
    violations = np.array(
        [
            [
                10 - distances[row] if (n, text) in own else 20
                for row, text in enumerate(found.texts)
            ]
            for n in (1, 2, 3)
        ]
    )
    measured = hierarchy(found, kept, violations, distances, np.arange(3))
    assert measured.keys() == {"precision", "recall", "depth_correlation"}
    for each in measured.values():
        assert each == pytest.approx({"value": 1, "low": 1, "high": 1})


def test_calibrate_chains_makes_general_texts_truer_than_specific_ones() -> None:
    # All true texts violate alike: only their numbers of words tell them apart.
    images = np.eye(3, 6, dtype=np.float32)
    points = {
        text: np.float32(0.8) * images[chain.image_id - 1]
        + np.float32(0.2) * np.eye(6, dtype=np.float32)[3]
        for chain in CHAINS
        for text in chain.texts
    }
    shown = ChainedImages(dataset(), images, CHAINS)

    def encode(texts: Sequence[str]) -> Points:
        return np.stack([points[one] for one in texts])

    found = calibrate_chains(shown, encode=encode, score="order")
    assert found is not None
    assert found.word_weight > 0
    general, specific = found.of_texts(["dog", "a red dog"], [0.04, 0.04])
    assert general >= specific
    # Of other images much is false at a violation at which all was true.
    shuffled = replace(shown, points=images[[1, 2, 0]])
    both = calibrate_chains(shown, shuffled, encode=encode, score="order")
    assert both is not None
    assert both.word_weight == found.word_weight
    assert (both.pairs, both.true) == (2 * found.pairs, 2 * found.true)
    assert both.of_texts(["dog"], [0.04]) < found.of_texts(["dog"], [0.04])


def test_reliability_compares_probabilities_with_what_is_true() -> None:
    found = pairs()
    right = reliability(found, found.true.astype(np.float64))["short"]
    for name in ("error", "error_of_equal_masses", "brier", "log_loss"):
        assert right[name] == {"value": 0, "low": 0, "high": 0}
    wrong = reliability(found, (~found.true).astype(np.float64))
    assert wrong["short"]["error"]["value"] == wrong["short"]["brier"]["value"] == 1
    assert sum(row["pairs"] for row in wrong["short"]["rows"]) == len(found.true)
    assert wrong["long"]["rows"] == [], "no text has three content words"
    assert wrong["long"]["error"]["value"] == 0


def test_reliability_of_one_probability_for_all_is_off_by_its_distance_from_the_share() -> None:
    found = pairs()
    share = float(found.true.mean())
    measured = reliability(found, np.full(len(found.true), share))["short"]
    assert measured["error"]["value"] == pytest.approx(0)
    assert measured["error_of_equal_masses"]["value"] == pytest.approx(0)
    assert measured["brier"]["value"] == pytest.approx(share * (1 - share))


def test_depths_grow_with_words_but_articles_from_none_to_one() -> None:
    found = depths(["dog", "a dog", "a red dog", "word " * (DEEPEST + 5)])
    assert found.tolist() == [0, 0, 1 / DEEPEST, 1]
