from __future__ import annotations

from collections.abc import Callable, Mapping
from io import BytesIO

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageEnhance, ImageFont

from hasse.models.images.perceptual_hash import (
    NEAR,
    hash_points,
    perceptual_hash,
    same_picture,
    thumbnail_of,
)


def photograph(seed: int) -> Image.Image:
    """A picture with large and small shapes of many colours."""
    rng = np.random.default_rng(seed)
    coarse = Image.fromarray(rng.integers(0, 256, (6, 8, 3), np.uint8))
    picture = coarse.resize((400, 300), Image.Resampling.BICUBIC)
    fine = Image.fromarray(rng.integers(0, 256, (60, 80, 3), np.uint8)).resize((400, 300))
    return Image.blend(picture, fine, 0.2)


def page(text: str) -> Image.Image:
    """A page with a letter head."""
    picture = Image.new("RGB", (400, 560), "white")
    pen, font = ImageDraw.Draw(picture), ImageFont.load_default(14)
    pen.text((120, 20), "ACME Company Ltd.", fill="black", font=font)
    for at in range(24):
        pen.text((30, 60 + 20 * at), (text * 8)[at * 3 :][:50], fill="black", font=font)
    return picture


def compressed(picture: Image.Image) -> Image.Image:
    file = BytesIO()
    picture.save(file, "JPEG", quality=60)
    return Image.open(file)


VERSIONS: Mapping[str, Callable[[Image.Image], Image.Image]] = {
    "half": lambda picture: picture.resize((200, 150), Image.Resampling.LANCZOS),
    "compressed": compressed,
    "rotated": lambda picture: picture.rotate(90, expand=True),
    "upside down": lambda picture: picture.rotate(180),
    "brighter": lambda picture: ImageEnhance.Brightness(picture).enhance(1.15),
    "cropped": lambda picture: picture.crop((4, 3, 396, 297)),
}


def distance(one: Image.Image, other: Image.Image) -> float:
    points = hash_points([perceptual_hash(one), perceptual_hash(other)])
    return float(np.linalg.norm(points[0] - points[1]))


@pytest.mark.parametrize("name", VERSIONS)
def test_version_of_a_picture_is_near_and_the_same(name: str) -> None:
    for seed in range(10):
        picture = photograph(seed)
        one, other = thumbnail_of(picture), thumbnail_of(VERSIONS[name](picture))
        assert distance(one, other) < NEAR
        assert same_picture(one, other)
        assert same_picture(other, one)


def test_other_pictures_are_not_the_same() -> None:
    thumbnails = [thumbnail_of(photograph(seed)) for seed in range(12)]
    for at, one in enumerate(thumbnails):
        assert not any(same_picture(one, other) for other in thumbnails[at + 1 :])


def test_pages_of_one_letter_head_with_other_words_are_not_the_same() -> None:
    one = thumbnail_of(page("the quick brown fox jumps over a lazy dog "))
    other = thumbnail_of(page("invoice of march, payable within 14 days, "))
    assert not same_picture(one, other)


def test_picture_with_something_gone_is_not_the_same() -> None:
    picture = photograph(3)
    without = picture.copy()
    without.paste("white", (40, 30, 130, 110))
    assert not same_picture(thumbnail_of(picture), thumbnail_of(without))


@pytest.mark.parametrize("colour", ["white", "black", "red"])
def test_flat_picture_has_no_hash_and_is_the_same_as_nothing(colour: str) -> None:
    flat = thumbnail_of(Image.new("RGB", (300, 200), colour))
    assert perceptual_hash(flat) == b""
    assert not same_picture(flat, flat)


def test_picture_with_a_thing_of_another_colour_is_not_the_same() -> None:
    one, other = photograph(4), photograph(4)
    for picture, colour in ((one, "#c81e1e"), (other, "#1e56c8")):  # about as bright
        ImageDraw.Draw(picture).ellipse((60, 60, 130, 130), fill=colour)
    assert not same_picture(thumbnail_of(one), thumbnail_of(other))
