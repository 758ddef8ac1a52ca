"""Pixels of any depth and colour space come out in 8-bit sRGB."""

from __future__ import annotations

import io
import struct

import numpy as np
import pytest
from PIL import Image, ImageCms

from hasse.models.images.decoding import open_picture
from tests.models.images.pictures import close, encode, flat

RED = (220, 40, 30)


def wide_profile() -> bytes:
    """Return a profile with the primaries of Display P3 and a gamma of 2.2."""

    def fixed(*values: float) -> bytes:
        return b"".join(struct.pack(">i", round(value * 65_536)) for value in values)

    curve = b"curv\0\0\0\0" + struct.pack(">IH", 1, 563) + b"\0\0"
    tags = {
        b"desc": b"desc\0\0\0\0" + struct.pack(">I", 5) + b"wide\0" + bytes(79),
        b"wtpt": b"XYZ \0\0\0\0" + fixed(0.9642, 1, 0.8249),
        b"rXYZ": b"XYZ \0\0\0\0" + fixed(0.5151, 0.2412, -0.0011),
        b"gXYZ": b"XYZ \0\0\0\0" + fixed(0.2920, 0.6922, 0.0419),
        b"bXYZ": b"XYZ \0\0\0\0" + fixed(0.1571, 0.0666, 0.7841),
        **dict.fromkeys((b"rTRC", b"gTRC", b"bTRC"), curve),
    }
    at, table, data = 132 + 12 * len(tags), struct.pack(">I", len(tags)), b""
    for name, content in tags.items():
        table += name + struct.pack(">II", at + len(data), len(content))
        data += content
    start = b"lcms\2\x40\0\0mntrRGB XYZ " + struct.pack(">6H", 2024, 1, 1, 0, 0, 0) + b"acsp"
    head = start.ljust(64, b"\0") + fixed(0.9642, 1, 0.8249)
    return struct.pack(">I", 128 + len(table + data)) + head.ljust(124, b"\0") + table + data


def in_wide_colours(picture: Image.Image, content: bytes) -> Image.Image:
    srgb, profile = ImageCms.createProfile("sRGB"), ImageCms.getOpenProfile(io.BytesIO(content))
    converted = ImageCms.profileToProfile(picture, srgb, profile)
    assert converted is not None
    return converted


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP", "TIFF", "AVIF"])
def test_to_srgb_applies_the_profile_of_a_picture(form: str) -> None:
    content = wide_profile()
    wide = in_wide_colours(flat(RED, size=(16, 16)), content)
    assert not close(wide, RED)
    data = encode(wide, form, icc_profile=content, quality=100)
    assert close(open_picture(data), RED)


def test_to_srgb_applies_the_profile_of_a_palette_and_below_alpha() -> None:
    content = wide_profile()
    wide = in_wide_colours(flat(RED), content)
    for picture in (wide.quantize(), wide.convert("RGBA")):
        assert close(open_picture(encode(picture, "PNG", icc_profile=content)), RED)


def test_to_srgb_ignores_a_profile_that_is_damaged_or_of_another_colour_space() -> None:
    content = wide_profile()
    for profile in (content[:100], b"no profile", content.replace(b"RGB XYZ", b"CMYKXYZ")):
        assert close(open_picture(encode(flat(RED), "PNG", icc_profile=profile)), RED)
    grey = encode(Image.new("L", (8, 6), 90), "PNG", icc_profile=content)
    assert close(open_picture(grey), (90, 90, 90))


@pytest.mark.parametrize(
    ("kind", "largest"),
    [
        (np.uint8, 255),
        (np.uint16, 65_535),
        (np.uint16, 4095),
        (np.uint16, 1023),
        (np.float32, 1),
        (np.float32, 255),
        (np.float32, 65_535),
        (np.float32, 1e6),
        (np.int32, 255),
        (np.int32, 65_535),
    ],
)
def test_to_srgb_scales_a_tiff_by_what_it_holds(kind: type, largest: float) -> None:
    ramp = np.tile(np.linspace(0, 1, 64), (4, 1))
    data = encode(Image.fromarray((ramp * largest).astype(kind)), "TIFF")
    seen = np.asarray(open_picture(data))[..., 0]
    np.testing.assert_allclose(seen, ramp * 255, atol=2)


def test_to_srgb_takes_numbers_that_are_negative_or_none() -> None:
    values = np.tile(np.array([-1, 0, 1, np.nan, np.inf, -np.inf], np.float32), (4, 1))
    seen = np.asarray(open_picture(encode(Image.fromarray(values), "TIFF")))[0, :, 0]
    assert seen.tolist() == [0, 1, 1, 1, 1, 1] or seen[0] < seen[1] <= seen[2]
