from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hasse.lab.evaluation.ground_truth import caption_owners, has_meanings, known_ground_truth
from hasse.models.datasets import Caption, Dataset, DatasetError, Image
from hasse.scenes import Scene, Statement, entails, holds, scene_and_captions


def photographs(captions: list[list[str]]) -> Dataset:
    images = tuple(
        Image(
            row, f"{row}.jpg", Path(f"{row}.jpg"), captions=tuple(Caption(0, row, t) for t in texts)
        )
        for row, texts in enumerate(captions)
    )
    return Dataset("photographs", images)


def scenes(count: int) -> Dataset:
    images = []
    for row in range(count):
        scene, statements = scene_and_captions(0, "test", row)
        captions = tuple(Caption(row, row, s.text, s.to_json()) for s in statements)
        images.append(
            Image(row, f"{row}.jpg", Path(f"{row}.jpg"), captions=captions, meaning=scene.to_json())
        )
    return Dataset("scenes", tuple(images))


def test_the_same_words_hold_wherever_they_were_written() -> None:
    truth = known_ground_truth(photographs([["a dog", "a red dog"], ["a cat"], ["a dog"]]))
    everything = truth.holds(np.arange(3), np.arange(4))
    assert everything.astype(int).tolist() == [[1, 1, 0, 1], [0, 0, 1, 0], [1, 0, 0, 1]]
    assert truth.holds(np.array([2]), np.array([3, 1])).tolist() == [[True, False]]
    assert truth.holds(np.array([0]), np.array([2, 3])).tolist() == [[False, True]]
    assert truth.holds(np.array([2, 1, 2]), np.array([0])).tolist() == [[True], [False], [True]]


def test_the_meaning_of_scenes_decides_where_it_is_known() -> None:
    dataset = scenes(40)
    captions = list(dataset.captions)
    images, rows = np.arange(0, 40, 3), np.arange(0, 200, 7)
    told = known_ground_truth(dataset).holds(images, rows)
    for at, image in enumerate(images):
        scene = Scene.from_json(dataset.images[image].meaning or {})
        for column, caption in enumerate(rows):
            statement = Statement.from_json(captions[caption].meaning or {})
            assert told[at, column] == holds(statement, scene)
    assert told.sum() > len(rows)  # many captions hold of more than their own image


def test_the_meaning_of_scenes_decides_which_caption_follows_from_which() -> None:
    dataset = scenes(20)
    said = [Statement.from_json(caption.meaning or {}) for caption in dataset.captions]
    premises, hypotheses = np.arange(0, 100, 3), np.arange(0, 100, 4)
    told = known_ground_truth(dataset).entails(premises, hypotheses)
    assert told is not None
    for at, premise in enumerate(premises):
        for column, hypothesis in enumerate(hypotheses):
            assert told[at, column] == entails(said[premise], said[hypothesis])
    assert 0 < told.sum() < told.size / 2


def test_of_photographs_nobody_knows_which_caption_follows_from_which() -> None:
    truth = known_ground_truth(photographs([["a dog", "a red dog"]]))
    assert truth.entails(np.arange(2), np.arange(2)) is None


def test_one_caption_or_picture_without_a_meaning_leaves_only_words() -> None:
    dataset = scenes(2)
    assert has_meanings(dataset)
    first, last = dataset.images
    captions = (*last.captions[:-1], replace(last.captions[-1], meaning=None))
    for spoiled in (replace(last, captions=captions), replace(last, meaning=None)):
        mixed = Dataset("mixed", (first, spoiled))
        assert not has_meanings(mixed)
        assert known_ground_truth(mixed).entails(np.arange(2), np.arange(2)) is None


def test_known_ground_truth_meanings_of_no_scenes_are_refused() -> None:
    (image,) = photographs([[]]).images
    with pytest.raises(DatasetError, match="meanings that are not those of drawn scenes"):
        known_ground_truth(Dataset("other", (replace(image, meaning={"shape": "round"}),)))


def test_captions_know_their_own_image() -> None:
    assert caption_owners(photographs([["a", "b"], [], ["c"]])).tolist() == [0, 0, 2]
