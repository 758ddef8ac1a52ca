"""What is said of one model over one dataset, and of two on the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hasse.lab.checkpoints import learned_model
from hasse.lab.evaluation.retrieval import retrieve
from hasse.lab.evaluation.significance import differences, intervals
from hasse.lab.pipelines.dataset_encoding import EncodedDataset
from hasse.lab.pipelines.evaluation import comparison, measure
from hasse.models.score import Score
from tests.lab.evaluation.test_retrieval import dataset, unit
from tests.tiny import tiny_checkpoint


def encoded(seed: int = 0) -> EncodedDataset:
    """Return points that nothing learned, of 7 images with 1 to 3 captions."""
    draw = np.random.default_rng(seed)
    collection = dataset(
        [["a dog runs in a park", "a dog", "a cat"][: 1 + i % 3] for i in range(7)]
    )
    captions = len(list(collection.captions))
    return EncodedDataset(collection, unit(draw.random((7, 16))), unit(draw.random((captions, 16))))


def test_blocks_hold_their_own_images_and_captions() -> None:
    whole = encoded()
    blocks = list(whole.blocks(3))
    assert [len(block.dataset) for block in blocks] == [2, 3, 2]
    assert sum((block.dataset.images for block in blocks), ()) == whole.dataset.images
    for block in blocks:
        assert len(block.captions) == len(list(block.dataset.captions))
    for name in ("images", "captions"):
        parts = np.concatenate([getattr(block, name) for block in blocks])
        np.testing.assert_array_equal(parts, getattr(whole, name))


@pytest.mark.parametrize("score", ["order", "order-reversed", "cosine"])
def test_model_is_measured_by_its_own_score(tmp_path: Path, score: Score) -> None:
    loaded, whole = learned_model.load(tiny_checkpoint(tmp_path, score)), encoded()
    told: list[tuple[int, int]] = []
    found = measure(loaded, whole, 2, lambda done, total: told.append((done, total)))
    assert told == [(1, 2), (2, 2)]
    blocks = [retrieve(one.dataset, one.images, one.captions, score) for one in whole.blocks(2)]
    said = found.to_json()
    assert (said["model"], said["fingerprint"]) == ("tiny", loaded.fingerprint)
    assert (said["score"], said["folds"]) == (score, 2)
    assert said["rsum"] == pytest.approx(np.mean([one.evaluation.rsum for one in blocks]))
    assert said["intervals"] == intervals(blocks).to_json()


def test_comparison_is_the_first_less_the_second(tmp_path: Path) -> None:
    loaded, whole = learned_model.load(tiny_checkpoint(tmp_path)), encoded()
    # The second sees nothing in pictures, so that all ties.
    blind = replace(whole, images=np.zeros_like(whole.images))
    first, second = (measure(loaded, one, 1, lambda *_: None) for one in (whole, blind))
    found = comparison(first, second)
    gap = first.evaluation.rsum - second.evaluation.rsum
    assert gap != 0
    assert found["rsum"] == pytest.approx(gap)
    assert found["intervals"] == differences(first.blocks, second.blocks).to_json()
    with pytest.raises(ValueError, match="the same images and captions"):
        comparison(first, measure(loaded, whole, 2, lambda *_: None))
