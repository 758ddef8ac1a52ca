"""Random crops of pictures: where they lie, how they change, and that no two are alike."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from hasse.lab.pixels import normalise_pixels
from hasse.models.images.preprocessing import IMAGENET_MEAN, IMAGENET_STD
from hasse.studies.distillation import augmentation
from hasse.studies.distillation.augmentation import AugmentationConfig, augment

PLAIN = AugmentationConfig(min_area=0.3, colour=0.0, mixup=0.0)
WHOLE = AugmentationConfig(min_area=1.0, max_aspect=1.0, colour=0.0, mixup=0.0)


def gradient(side: int) -> torch.Tensor:
    """A picture whose red grows to the right and whose green grows downwards: (S, S, 3)."""
    rising = np.linspace(0, 255, side).astype(np.uint8)
    return torch.from_numpy(np.stack([*np.meshgrid(rising, rising), np.full((side,) * 2, 9)], 2))


def test_crop_of_all_is_the_picture_or_its_mirror_image() -> None:
    pixels = torch.stack([gradient(64)] * 20).to(torch.uint8)
    found = augment(pixels, WHOLE, 64, np.random.default_rng(0))
    picture = normalise_pixels(pixels)[0]
    mirrored = [torch.allclose(one, picture.flip(2), atol=0.01) for one in found]
    assert 4 < sum(mirrored) < 16, "about half"
    for one, mirror in zip(found, mirrored, strict=True):
        torch.testing.assert_close(one, picture.flip(2) if mirror else picture, atol=0.01, rtol=0)


def test_crops_are_parts_and_no_two_are_alike() -> None:
    pixels = torch.stack([gradient(96)] * 40).to(torch.uint8)
    found = augment(pixels, PLAIN, 32, np.random.default_rng(0))
    mean, std = (torch.tensor(v).view(3, 1, 1) for v in (IMAGENET_MEAN, IMAGENET_STD))
    red, green, blue = ((found * std + mean) * 255).unbind(1)
    assert float((blue - 9).abs().max()) < 0.1, "nothing is read from beyond the picture"
    # Red runs from the crop's left edge to its right one, so it tells the width; green the height.
    width = (red[:, 0, -1] - red[:, 0, 0]).abs() / 255 * 32 / 31
    height = (green[:, -1, 0] - green[:, 0, 0]) / 255 * 32 / 31
    area = width * height
    assert 0.28 < float(area.min()) < 0.45
    assert 0.8 < float(area.max()) < 1.02
    assert np.log(4 / 3) - 0.1 < float((width / height).log().abs().max()) < np.log(4 / 3) + 0.05
    assert len({one.numpy().tobytes() for one in found}) == 40


def test_same_draw_gives_the_same_crops_at_any_size() -> None:
    pixels = torch.stack([gradient(64)] * 8).to(torch.uint8)
    how = AugmentationConfig()
    once, again = (augment(pixels, how, 32, np.random.default_rng(3)) for _ in range(2))
    torch.testing.assert_close(once, again, atol=0, rtol=0)
    larger = augment(pixels, how, 64, np.random.default_rng(3))
    torch.testing.assert_close(once.mean((2, 3)), larger.mean((2, 3)), atol=0.02, rtol=0)


def test_contrast_saturation_brightness_and_tint_change_within_their_range() -> None:
    pixels = torch.rand(300, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    changed = augmentation._coloured(pixels.clone(), 0.3, np.random.default_rng(0))

    def grey(of: torch.Tensor) -> torch.Tensor:
        return of.mean(1, keepdim=True)

    def spread(of: torch.Tensor) -> torch.Tensor:
        return (of - of.mean((2, 3), keepdim=True)).square().mean((1, 2, 3)).sqrt()

    contrast = spread(grey(changed)) / spread(grey(pixels))
    both = spread(changed - grey(changed)) / spread(pixels - grey(pixels))
    middle = pixels.mean((1, 2, 3))[:, None]
    own = (both[:, None] * (pixels.mean((2, 3)) - middle)) + middle
    light = changed.mean((2, 3)) - own  # of red, green and blue: (300, 3)
    for how, most, each in (
        ("contrast", 0.3, contrast.log()),
        ("saturation", 0.3, (both / contrast).log()),
        ("brightness", 0.3, light.mean(1)),
        ("tint", 0.6, light[:, 0] - light[:, 2]),
    ):
        assert most / 2 < float(each.max()) < most + 0.001, how
        assert -most - 0.001 < float(each.min()) < -most / 2, how
        assert abs(float(each.mean())) < 0.05, how


def test_crops_are_coloured_and_mixed_as_configured() -> None:
    pixels = torch.stack([gradient(64)] * 8).to(torch.uint8)

    def found(how: AugmentationConfig) -> torch.Tensor:
        return augment(pixels, how, 32, np.random.default_rng(3))

    plain = found(PLAIN)
    coloured, mixed = (
        [one.equal(other) for one, other in zip(found(how), plain, strict=True)]
        for how in (replace(PLAIN, colour=0.3), replace(PLAIN, mixup=0.5))
    )
    assert coloured == [False] * 8
    assert mixed == [False] * 4 + [True] * 4


def test_each_picture_is_mixed_with_the_next_by_its_own_weight() -> None:
    pixels = torch.arange(40.0).view(40, 1, 1, 1).expand(40, 3, 2, 2)
    mixed = augmentation._mixed(pixels, 1.0, np.random.default_rng(0))[:, 0, 0, 0]
    shares = mixed[:-1] - torch.arange(39.0)
    assert 0 < float(shares.min()) < 0.1
    assert 0.9 < float(shares.max()) < 1
    assert 0 < float(mixed[-1]) < 39, "the first over the last"
