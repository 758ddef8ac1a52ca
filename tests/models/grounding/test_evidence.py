"""Evidence of sets of classes: ordered as the sets are."""

from __future__ import annotations

import numpy as np
import pytest

from hasse.models.encoders.regions import REGIONS
from hasse.models.grounding.evidence import Evidence, Floats, windows
from hasse.models.networks.network import NetworkError

CLASSES, FEATURES = 12, 7
RANDOM = np.random.default_rng(0)


def normal(*shape: int) -> Floats:
    return RANDOM.standard_normal(shape, np.float32)


def evidence(sets: Floats) -> Evidence:
    return Evidence(sets, (4 * normal(CLASSES, FEATURES), normal(CLASSES)))


def test_evidence_of_a_set_is_at_most_that_of_a_set_that_contains_it() -> None:
    nested = np.triu(np.ones((CLASSES, CLASSES), np.float32))  # set k has the classes up to k
    found = evidence(nested).of(normal(50, REGIONS, FEATURES))
    assert (np.diff(found, axis=1) >= -1e-5).all()
    assert found.min() >= 0
    assert found.max() <= 1


def test_evidence_is_the_largest_of_all_windows() -> None:
    features = normal(1, REGIONS, FEATURES)
    reader = evidence(np.eye(CLASSES, dtype=np.float32))
    every = [reader.of(np.tile(one, (1, REGIONS, 1))) for one in windows(features)[0]]
    np.testing.assert_allclose(reader.of(features), np.max(every, 0), atol=1e-5)


def test_evidence_of_a_picture_has_the_same_bits_alone_and_among_others() -> None:
    reader, features = evidence(np.eye(CLASSES, dtype=np.float32)), normal(9, REGIONS, FEATURES)
    alone = np.concatenate([reader.of(one[None]) for one in features])
    np.testing.assert_array_equal(reader.of(features), alone)


def test_windows_are_the_whole_and_the_means_of_two_by_two_regions() -> None:
    features = normal(2, REGIONS, FEATURES)
    found = windows(features)
    assert found.shape == (2, 5, FEATURES)
    np.testing.assert_array_equal(found[:, 0], features[:, 0])
    for window, regions in ((1, [1, 2, 4, 5]), (4, [5, 6, 8, 9])):
        expected = features[:, regions].mean(1)
        np.testing.assert_allclose(found[:, window], expected, atol=1e-6)


def test_a_classifier_of_other_classes_is_refused() -> None:
    with pytest.raises(NetworkError, match="grounded in another network"):
        Evidence(normal(3, 2), (normal(4, 5), normal(4)))
