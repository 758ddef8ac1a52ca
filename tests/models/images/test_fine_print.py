"""Pages that differ in one word are two pictures, and versions of one page are one."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from PIL import Image, ImageDraw, ImageEnhance, ImageFont

from hasse.models.images.fine_print import same_print
from tests.models.images.test_perceptual_hash import photograph


def page(last: str = "Invoice 1001 total 12.50", color: int = 0) -> Image.Image:
    picture = Image.new("RGB", (620, 877), "white")
    drawing = ImageDraw.Draw(picture)
    for line in range(20):
        drawing.text((50, 60 + 30 * line), "one form for all letters " * 2, 60, font=_font(18))
    drawing.text((50, 780), last, (color,) * 3, font=_font(20))
    return picture


def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)


def jpeg(picture: Image.Image, quality: int) -> Image.Image:
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=quality)
    return Image.open(file).convert("RGB")


@pytest.mark.parametrize(
    "other",
    [
        page("Invoice 1002 total 98.10"),
        page("Invoice 1001 total 72.60"),
        page("Anna Berger"),
        page(""),
        jpeg(page("Invoice 7001 total 12.50"), 60),
        page("Invoice 4007 total 12.50").rotate(180),
        page("paid", 120),
    ],
)
def test_pages_that_differ_in_words_are_different(other: Image.Image) -> None:
    assert not same_print(page(), other)
    assert not same_print(other, page())


VERSIONS: dict[str, Callable[[Image.Image], Image.Image]] = {
    "compressed": lambda picture: jpeg(picture, 30),
    "halved": lambda picture: picture.resize((picture.width // 2, picture.height // 2)),
    "rotated": lambda picture: jpeg(picture.rotate(90, expand=True), 70),
    "darker": lambda picture: ImageEnhance.Brightness(picture).enhance(0.7),
    "brighter": lambda picture: ImageEnhance.Brightness(picture).enhance(1.3),
    "grey": lambda picture: picture.convert("L").convert("RGB"),
    "tiny": lambda picture: picture.resize((40, 30)),
}


@pytest.mark.parametrize("version", VERSIONS)
def test_versions_of_a_page_and_of_a_photograph_are_the_same(version: str) -> None:
    for picture in (page(), photograph(0)):
        assert same_print(picture, VERSIONS[version](picture))
