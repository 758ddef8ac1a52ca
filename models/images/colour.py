"""Converts decoded pixels of any kind to 8-bit sRGB."""

from __future__ import annotations

from functools import cache
from io import BytesIO

import numpy as np
from PIL import Image, ImageCms
from PIL.TiffImagePlugin import TiffImageFile

# Largest values of 0 to 1, and of 8, 10, 12, 14 and 16 bits.
_LARGEST = (1, 255, 1023, 4095, 16_383, 65_535)
# Colour spaces of ICC profiles, by the mode of the pixels.
_SPACES = {"RGB": "RGB", "L": "GRAY", "CMYK": "CMYK"}


def to_srgb(picture: Image.Image) -> Image.Image:
    """Convert a picture to RGB in the colours of sRGB; transparency becomes white."""
    profile = picture.info.get("icc_profile")
    if picture.mode.startswith("I") or picture.mode == "F":
        picture = _grey(picture)
    elif picture.mode in {"LA", "PA", "La", "RGBA", "RGBa"} or "transparency" in picture.info:
        layered = picture if picture.mode == "RGBA" else picture.convert("RGBA")
        picture = Image.new("RGB", layered.size, "white")
        picture.paste(layered, mask=layered.getchannel("A"))
    elif picture.mode not in _SPACES:
        picture = picture.convert("RGB")
    if profile:
        picture = _from_profile(picture, profile)
    return picture if picture.mode == "RGB" else picture.convert("RGB")


def _grey(picture: Image.Image) -> Image.Image:
    """Scale whole numbers of 16 or 32 bits, or floating point, to 8 bits.

    The range of a TIFF is estimated from its largest value: 12 bits are stored as 16, and floating
    point may end at 1, 255 or 65,535. Other formats use all 16 bits.
    """
    values = np.asarray(picture)
    if isinstance(picture, TiffImageFile):
        values = np.nan_to_num(values.astype(np.float32), posinf=0, neginf=0)
        values -= min(0.0, float(values.min()))
        maximum = float(values.max())
        maximum = next((largest for largest in _LARGEST if maximum <= largest), maximum)
        levels = (values * (255 / maximum) + 0.5).astype(np.uint8)
    else:
        levels = (values >> 8).astype(np.uint8)
    if (transparent := picture.info.get("transparency")) is not None:
        levels[np.asarray(picture) == transparent] = 255
    return Image.fromarray(levels)


def _from_profile(picture: Image.Image, content: bytes) -> Image.Image:
    """Apply a colour profile; ignore a damaged one, or one for another colour space."""
    try:
        profile = ImageCms.ImageCmsProfile(BytesIO(content))
        space = profile.profile.xcolor_space.strip()
        if _SPACES[picture.mode] != space or "sRGB" in ImageCms.getProfileDescription(profile):
            return picture
        converted = ImageCms.profileToProfile(picture, profile, _srgb(), outputMode="RGB")
    except (ImageCms.PyCMSError, OSError, ValueError, TypeError, AttributeError):
        return picture
    return picture if converted is None else converted


@cache
def _srgb() -> ImageCms.ImageCmsProfile:
    return ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB"))
