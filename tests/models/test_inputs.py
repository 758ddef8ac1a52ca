from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from models.datasets import Caption, Dataset, DatasetError, Image
from models.inputs import FeatureInput, available, rows_of


def collection(*captioned: bool) -> Dataset:
    images = []
    for row, has_caption in enumerate(captioned):
        captions = (Caption(row, row, "words"),) if has_caption else ()
        images.append(Image(row, f"{row}.png", Path(f"{row}.png"), captions=captions))
    return Dataset("drawn", tuple(images))


def features(*image_ids: int) -> FeatureInput:
    return FeatureInput(np.array(image_ids), np.zeros((len(image_ids), 4), dtype=np.float32))


def test_images_without_captions_or_features_are_left_out() -> None:
    dataset = collection(False, True, True, True)
    assert [image.id for image in available(dataset, features(0, 1, 3)).images] == [1, 3]
    for images in (dataset, collection(False)):
        with pytest.raises(DatasetError, match=r"import captions .* or run 'hasse features' on"):
            available(images, features(9))
    held_out = replace(dataset, images=tuple(replace(i, split="val") for i in dataset.images))
    with pytest.raises(DatasetError, match=r"'.*' in the split val has a caption"):
        available(held_out, features(9))


def test_images_are_found_in_any_order_and_one_that_is_not_there_is_named() -> None:
    dataset = collection(True, True, True)
    assert rows_of(dataset, features(2, 7, 0, 1)).tolist() == [2, 3, 0]
    assert rows_of(dataset, features(2, 7, 0, 1, 2)).tolist() == [2, 3, 4]
    with pytest.raises(DatasetError, match=r"image 1 \(1\.png\) has no features"):
        rows_of(dataset, features(2, 0))
