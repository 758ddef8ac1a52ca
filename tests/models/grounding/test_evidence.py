"""Evidence of sets of classes: ordered as the sets are."""

from __future__ import annotations

import pytest
import torch

from hasse.models.encoders.regions import REGIONS
from hasse.models.encoders.weights import BackboneError
from hasse.models.grounding.evidence import Evidence, classifier_of, windows

CLASSES, FEATURES = 12, 7


def evidence(sets: torch.Tensor) -> Evidence:
    torch.manual_seed(0)
    return Evidence(sets, (4 * torch.randn(CLASSES, FEATURES), torch.randn(CLASSES)))


def test_evidence_of_a_set_is_at_most_that_of_a_set_that_contains_it() -> None:
    nested = torch.tril(torch.ones(CLASSES, CLASSES)).T  # set k has the classes up to k
    found = evidence(nested)(torch.randn(50, REGIONS, FEATURES))
    assert (found.diff(dim=1) >= -1e-5).all()
    assert found.min() >= 0
    assert found.max() <= 1


def test_evidence_is_the_largest_of_all_windows() -> None:
    features = torch.randn(1, REGIONS, FEATURES)
    reader = evidence(torch.eye(CLASSES))
    every = torch.stack([reader(one.expand(1, REGIONS, FEATURES)) for one in windows(features)[0]])
    torch.testing.assert_close(reader(features), every.amax(0))


def test_windows_are_the_whole_and_the_means_of_two_by_two_regions() -> None:
    features = torch.randn(2, REGIONS, FEATURES)
    found = windows(features)
    assert found.shape == (2, 5, FEATURES)
    torch.testing.assert_close(found[:, 0], features[:, 0])
    torch.testing.assert_close(found[:, 1], features[:, [1, 2, 4, 5]].mean(1))
    torch.testing.assert_close(found[:, 4], features[:, [5, 6, 8, 9]].mean(1))


def test_a_network_without_classes_that_are_synsets_is_refused() -> None:
    with pytest.raises(BackboneError, match="no classifier here whose classes are synsets"):
        classifier_of("open_clip/ViT-B-32")


def test_a_classifier_of_other_classes_is_refused() -> None:
    with pytest.raises(BackboneError, match="grounded in another network"):
        Evidence(torch.ones(3, 2), (torch.ones(4, 5), torch.ones(4)))
