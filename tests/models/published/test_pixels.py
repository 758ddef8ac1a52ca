"""Pictures are prepared as the settings of a published model say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from PIL import Image

from hasse.models.images.preprocessing import Preprocessing
from hasse.models.published.pixels import preprocessing_of

MEAN, STD = [0.5, 0.4, 0.3], [0.2, 0.25, 0.3]
OPEN_CLIP = {"size": [32, 32], "mode": "RGB", "mean": MEAN, "std": STD, "interpolation": "bicubic"}
TRANSFORMERS = {
    "size": {"shortest_edge": 32},
    "crop_size": {"height": 32, "width": 32},
    "do_center_crop": True,
    "resample": 3,
    "rescale_factor": 1 / 255,
    "image_mean": MEAN,
    "image_std": STD,
}


def picture(width: int, height: int) -> Image.Image:
    noise = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(noise)


def normalised(prepared: Image.Image) -> np.ndarray:
    pixels = (np.asarray(prepared, np.float32) / 255 - MEAN) / STD
    return pixels.transpose(2, 0, 1)[None]


def scaled_then_cropped(image: Image.Image, side: int, crop: int) -> Image.Image:
    """Scale the shorter side, and cut the middle."""
    scale = side / min(image.size)
    width, height = (int(length * scale) for length in image.size)
    scaled = image.resize((width, height), Image.Resampling.BICUBIC)
    left, top = (width - crop) // 2, (height - crop) // 2
    return scaled.crop((left, top, left + crop, top + crop))


@pytest.mark.parametrize("size", [(64, 48), (96, 192), (32, 32)])
def test_open_clip_settings_scale_the_shorter_side_and_cut_the_middle(
    size: tuple[int, int],
) -> None:
    image = picture(*size)
    preprocessing = preprocessing_of(OPEN_CLIP | {"resize_mode": "shortest"}, "immich")
    expected = normalised(scaled_then_cropped(image, 32, 32))
    # Two roundings to whole numbers of brightness, one for each side that is scaled.
    np.testing.assert_allclose(preprocessing.apply(image), expected, atol=2 / 255 / min(STD))
    assert preprocessing_of(OPEN_CLIP, "immich") == preprocessing


def test_open_clip_settings_that_squash_scale_both_sides() -> None:
    image = picture(64, 48)
    preprocessing = preprocessing_of(OPEN_CLIP | {"resize_mode": "squash"}, "immich")
    squashed = image.resize((32, 32), Image.Resampling.BICUBIC)
    np.testing.assert_allclose(preprocessing.apply(image), normalised(squashed), atol=1e-5)


def test_transformers_settings_scale_and_cut() -> None:
    image = picture(80, 60)
    settings = TRANSFORMERS | {"size": {"shortest_edge": 40}}
    preprocessing = preprocessing_of(settings, "Transformers.js")
    expected = normalised(scaled_then_cropped(image, 40, 32))
    np.testing.assert_allclose(preprocessing.apply(image), expected, atol=2 / 255 / min(STD))


def test_transformers_settings_with_height_and_width_scale_both_sides() -> None:
    settings = {"size": {"height": 32, "width": 32}, "image_mean": MEAN, "image_std": STD}
    preprocessing = preprocessing_of(settings | {"resample": 2}, "Transformers.js")
    expected = Preprocessing(
        32, 32, 1, (0.5, 0.4, 0.3), (0.2, 0.25, 0.3), framing="whole", interpolation="bilinear"
    )
    assert preprocessing == expected


def test_transformers_settings_without_normalisation_leave_brightness_between_0_and_1() -> None:
    settings = TRANSFORMERS | {"do_normalize": False, "size": 32, "crop_size": 32, "resample": 1}
    preprocessing = preprocessing_of(settings, "Transformers.js")
    pixels = preprocessing.apply(picture(40, 40))
    assert (pixels.min(), pixels.max()) == (pytest.approx(0, abs=0.01), pytest.approx(1, abs=0.01))
    assert preprocessing.interpolation == "lanczos"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"resize_mode": "longest"}, "resized by 'longest'"),
        ({"size": [32, 64]}, "32 x 64"),
        ({"mode": "L"}, "the channels L"),
    ],
)
def test_open_clip_settings_that_hasse_cannot_follow_are_refused(
    change: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        preprocessing_of(OPEN_CLIP | change, "immich")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"do_pad": True}, "padded"),
        ({"do_center_crop": False}, "not cut to a square"),
        ({"do_rescale": False}, "not scaled"),
        ({"rescale_factor": 1.0}, "multiplied by 1.0"),
        ({"resample": 0}, "Pillow's filter 0"),
        ({"crop_size": {"height": 64, "width": 64}}, "does not fit"),
        ({"size": {"height": 32, "width": 48}}, "32 x 48"),
    ],
)
def test_transformers_settings_that_hasse_cannot_follow_are_refused(
    change: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        preprocessing_of(TRANSFORMERS | change, "Transformers.js")
