"""Pictures become network input: crops, framings and random views."""

from __future__ import annotations

import json
import math
import resource
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torchvision.transforms import functional as reference

from hasse.models.images.preprocessing import (
    MAX_SIDE,
    CropBox,
    Framing,
    Preprocessing,
    resized_crop,
)


def noise(width: int = 48, height: int = 32) -> Image.Image:
    pixels = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def flat(colour: tuple[int, ...], size: tuple[int, int]) -> Image.Image:
    return Image.new("RGB", size, colour)


def tensor(how: Preprocessing, picture: Image.Image) -> torch.Tensor:
    return torch.from_numpy(how.apply(picture))


@pytest.mark.parametrize(
    "size", [(500, 375), (375, 500), (224, 224), (100, 31), (256, 1000), (343, 256)]
)
def test_one_crop_is_what_torchvision_makes(size: tuple[int, int]) -> None:
    picture = noise(*size)
    resized = reference.resize(picture, [256])
    expected = reference.normalize(
        reference.to_tensor(reference.center_crop(resized, [224])),
        [0.485, 0.456, 0.406], [0.229, 0.224, 0.225],
    )  # fmt: skip
    # One grey level is 1 / (255 x 0.224); rounding after each scaling pass may differ by that.
    torch.testing.assert_close(tensor(Preprocessing(), picture)[0], expected, atol=0.019, rtol=0)


def test_ten_crops_are_centre_and_corners_and_their_mirrors() -> None:
    picture = noise(500, 375)
    resized = reference.resize(picture, [256])
    top_left, top_right, bottom_left, bottom_right, centre = reference.five_crop(resized, [224])
    crops = tensor(Preprocessing(crops=10, mean=(0, 0, 0), std=(1, 1, 1)), picture)
    assert crops.shape == (10, 3, 224, 224)
    for at, crop in enumerate([centre, top_left, top_right, bottom_left, bottom_right]):
        expected = reference.to_tensor(crop)
        torch.testing.assert_close(crops[at], expected, atol=1.01 / 255, rtol=0)
        torch.testing.assert_close(crops[at + 5], expected.flip(-1), atol=1.01 / 255, rtol=0)


@pytest.mark.parametrize("size", [(500, 375), (60, 900), (224, 224)])
def test_whole_of_a_picture_is_squeezed_into_the_square(size: tuple[int, int]) -> None:
    picture = noise(*size)
    how = Preprocessing(224, 224, mean=(0, 0, 0), std=(1, 1, 1), framing="whole")
    expected = reference.to_tensor(reference.resize(picture, [224, 224]))
    torch.testing.assert_close(tensor(how, picture)[0], expected, atol=1.01 / 255, rtol=0)


@pytest.mark.parametrize("size", [(1, 40_000), (40_000, 1), (3, 1_000_000)])
@pytest.mark.parametrize("crops", [1, 10])
def test_extreme_shape_costs_no_more_memory_than_any_other(
    size: tuple[int, int], crops: int
) -> None:
    picture = flat((255, 0, 0), size=size)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    pixels = Preprocessing(crops=crops, mean=(0, 0, 0), std=(1, 1, 1)).apply(picture)
    # Kilobytes: usually a few; 6,000,000 and more where a picture is enlarged before it is cut.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000
    assert pixels.shape == (crops, 3, 224, 224)
    expected = np.broadcast_to(np.array([1.0, 0, 0])[:, None, None], pixels.shape)
    np.testing.assert_allclose(pixels, expected, atol=1e-6)


@given(
    width=st.integers(1, 3000), height=st.integers(1, 3000),
    resize=st.integers(1, 64), share=st.floats(0, 1), crops=st.sampled_from([1, 10]),
    framing=st.sampled_from(["centre", "whole"]),
)  # fmt: skip
def test_every_shape_and_setting_gives_crops(
    width: int, height: int, resize: int, share: float, crops: int, framing: Framing
) -> None:
    crop = max(1, int(resize * share))
    how = Preprocessing(resize=resize, crop=crop, crops=crops, framing=framing)
    pixels = how.apply(flat((0, 128, 255), size=(width, height)))
    assert pixels.shape == (crops, 3, how.crop, how.crop)
    assert pixels.dtype == np.float32
    assert pixels.flags.c_contiguous


def test_preprocessing_survives_json_unchanged() -> None:
    how = Preprocessing(resize=40, crop=32, crops=10, mean=(0.5, 0.5, 0.5), std=(1.0, 1.0, 1.0))
    assert Preprocessing(**json.loads(json.dumps(asdict(how)))) == how


@pytest.mark.parametrize(
    "fields",
    [{"crop": 0}, {"crop": 300}, {"crops": 5}, {"std": (0.0, 1.0, 1.0)}, {"mean": (0.5, 0.5)},
     {"std": (1.0, 1.0)},
     {"framing": "half"}, {"resize": MAX_SIDE + 1}],
)  # fmt: skip
def test_preprocessing_refuses_impossible_values(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"crop|std|framing|resize is at most 16,384"):
        Preprocessing(**fields)


def test_resize_may_be_max_side() -> None:
    assert Preprocessing(resize=MAX_SIDE).resize == MAX_SIDE


@given(
    width=st.integers(1, 90),
    height=st.integers(1, 90),
    seed=st.integers(0, 2**32),
)
def test_random_view_of_any_picture_is_a_part_of_it(width: int, height: int, seed: int) -> None:
    ramp = np.linspace(0, 255, width, dtype=np.uint8)
    picture = Image.fromarray(np.broadcast_to(ramp[None, :, None], (height, width, 3)).copy())
    how = Preprocessing(resize=16, crop=16, mean=(0, 0, 0), std=(1, 1, 1))
    view = how.random_view(picture, np.random.default_rng(seed))
    assert view.shape == (3, 16, 16)
    assert view.min() >= 0
    assert view.max() <= 1
    # Nothing is turned or scrambled: a ramp rises, or falls where the view is mirrored.
    steps = np.diff(view[0, 0])
    assert (steps >= 0).all() or (steps <= 0).all()


def test_crop_that_rounding_puts_beyond_the_picture_ends_there() -> None:
    beyond = math.nextafter(1, 2)
    found = resized_crop(noise(48, 32), CropBox(0, 0, beyond, beyond, mirrored=False), 8)
    np.testing.assert_array_equal(found, noise(48, 32).resize((8, 8), Image.Resampling.BILINEAR))


def test_random_views_differ_and_cover_the_picture() -> None:
    rows, columns = np.mgrid[0:64, 0:64]
    pixels = np.stack([columns * 4, rows * 4, np.zeros_like(rows)], axis=2).astype(np.uint8)
    how = Preprocessing(resize=32, crop=32, mean=(0, 0, 0), std=(1, 1, 1))
    draw = np.random.default_rng(0)
    views = np.stack([how.random_view(Image.fromarray(pixels), draw) for _ in range(200)])
    mirrored = views[:, 0, 0, 0] > views[:, 0, 0, -1]
    assert 60 < mirrored.sum() < 140
    left, right = views[:, 0, 0].min(1), views[:, 0, 0].max(1)
    top, bottom = views[:, 1, 0, 0], views[:, 1, -1, 0]
    width, height = right - left, bottom - top
    area, ratio = width * height / 0.98**2, width / height
    assert area.min() > 0.35
    assert 0.9 < area.max() < 1.1
    assert 0.7 < ratio.min() < 0.9
    assert 1.1 < ratio.max() < 1.4
    assert min(left.min(), top.min()) < 0.05
    assert max(right.max(), bottom.max()) > 0.9
