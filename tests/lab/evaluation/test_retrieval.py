from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from hasse.lab.evaluation.retrieval import evaluate, retrieve
from hasse.models.datasets import Caption, Dataset, Image
from hasse.models.score import SCORES, Score
from hasse.scenes import scene_and_captions


def dataset(captions: list[list[str]]) -> Dataset:
    images = []
    number = 0
    for row, texts in enumerate(captions):
        own = tuple(Caption(number + at, row, text) for at, text in enumerate(texts))
        number += len(texts)
        images.append(Image(row, f"{row}.jpg", Path(f"{row}.jpg"), captions=own))
    return Dataset("test", tuple(images))


def unit(rows: NDArray[np.float64]) -> NDArray[np.float32]:
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)


@pytest.mark.parametrize("score", SCORES)
def test_a_perfect_model_scores_six_hundred(score: Score) -> None:
    points = np.eye(12, dtype=np.float32)
    measured = evaluate(dataset([[f"caption {i}"] for i in range(12)]), points, points, score)
    assert measured.rsum == 600
    assert measured.image_retrieval.mean == measured.caption_retrieval.mean == 1


@pytest.mark.parametrize("block", [60, 1 << 23])
def test_a_model_that_cannot_tell_scores_as_chance(block: int) -> None:
    images, captions = np.full((20, 4), 0.5, np.float32), np.full((20, 4), 0.5, np.float32)
    measured = evaluate(dataset([[f"{i}"] for i in range(20)]), images, captions, "order", block)
    assert measured.image_retrieval.mean == 10.5
    assert measured.image_retrieval.r1 == 0
    assert measured.image_retrieval.tied == 20


def test_ranks_are_those_of_a_plain_sort_in_blocks_of_any_size() -> None:
    rng = np.random.default_rng(1)
    images, captions = unit(rng.random((15, 6))), unit(rng.random((30, 6)))
    collection = dataset([[f"{i} a", f"{i} b"] for i in range(15)])
    gap = np.maximum(captions[None].astype(float) - images[:, None], 0)
    penalty = np.square(gap).sum(-1)  # (15, 30)
    image_ranks = [1 + (penalty[:, c] < penalty[c // 2, c]).sum() for c in range(30)]
    caption_ranks = [
        1 + (penalty[i] < penalty[i, 2 * i : 2 * i + 2].min()).sum() for i in range(15)
    ]
    for block in (1, 64, 1 << 23):
        measured = evaluate(collection, images, captions, "order", block)
        assert (measured.images, measured.captions) == (15, 30)
        assert measured.caption_retrieval.queries == 15
        assert measured.image_retrieval.queries == 30
        assert measured.image_retrieval.mean == pytest.approx(np.mean(image_ranks))
        assert measured.caption_retrieval.mean == pytest.approx(np.mean(caption_ranks))
        recalls = [
            100 * np.mean(np.array(ranks) <= k)
            for ranks in (image_ranks, caption_ranks)
            for k in (1, 5, 10)
        ]
        assert measured.rsum == measured.to_json()["rsum"] == pytest.approx(sum(recalls))


def test_an_image_without_captions_is_searched_but_does_not_ask() -> None:
    points = np.eye(3, dtype=np.float32)
    found = retrieve(dataset([["a"], [], ["b"]]), points, points[[0, 2]], "order")
    assert found.caption_retrieval.images.tolist() == [0, 2]
    assert found.image_retrieval.images.tolist() == [0, 2]
    measured = found.evaluation
    assert measured.images == 3
    assert measured.caption_retrieval.queries == 2
    assert measured.rsum == 600


@pytest.mark.parametrize(("truth", "r1"), [("annotation", 0), ("meaning", 100)])
def test_a_caption_of_another_image_is_true_where_its_meaning_is_known(
    truth: str, r1: float
) -> None:
    plain = dataset([["the same words"], ["the same words"]])
    scene, (statement, *_) = scene_and_captions(0, "train", 0)
    images = tuple(
        replace(
            image,
            captions=(replace(image.captions[0], meaning=statement.to_json()),),
            meaning=scene.to_json(),
        )
        for image in plain.images
    )
    points = np.eye(2, dtype=np.float32)
    collection = plain if truth == "annotation" else replace(plain, images=images)
    measured = evaluate(collection, points, points[::-1].copy(), "order")
    assert measured.ground_truth == truth
    assert measured.caption_retrieval.r1 == measured.image_retrieval.r1 == r1


def test_points_of_another_dataset_are_refused() -> None:
    points = np.eye(3, dtype=np.float32)
    for images, captions in ((points, points[:2]), (points[:2], points)):
        with pytest.raises(ValueError, match="not those of this dataset"):
            evaluate(dataset([["a"], ["b"]]), images, captions, "order")
