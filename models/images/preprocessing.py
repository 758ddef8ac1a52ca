"""Preprocessing: from pictures to the input of a network."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL import Image

MAX_SIDE = 16_384  # pixels of a network's input
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)

Pixels: TypeAlias = NDArray[np.float32]  # a network's input of one picture: (crops, 3, H, W)
Framing = Literal["centre", "whole"]
Interpolation = Literal["bilinear", "bicubic", "lanczos"]


@dataclass(frozen=True, slots=True)
class Preprocessing:
    """Preprocessing of pictures for a network: part of a model, stored with its weights.

    Attributes:
        resize: pixels of the shortest side after scaling (antialiased).
        framing: "centre" keeps a picture's proportions, so crops may miss its ends. "whole"
            scales both sides to `resize`, so nothing is missed.
        crop: pixels of each side of a crop.
        crops: 1 (the centre), or 10 (centre and corners, each also mirrored), as in the paper.
        mean: subtracted from the red, green and blue channels, which are in [0, 1].
        std: divisor of the channels after that.
        interpolation: the filter of the scaling.
    """

    resize: int = 256
    crop: int = 224
    crops: int = 1
    mean: tuple[float, float, float] = IMAGENET_MEAN
    std: tuple[float, float, float] = IMAGENET_STD
    framing: Framing = "centre"
    interpolation: Interpolation = "bilinear"

    def __post_init__(self) -> None:
        """Turn JSON's lists into tuples, and refuse impossible values (ValueError)."""
        object.__setattr__(self, "mean", tuple(self.mean))
        object.__setattr__(self, "std", tuple(self.std))
        if not 1 <= self.crop <= self.resize:
            raise ValueError(f"a crop of {self.crop} does not fit in a side of {self.resize}")
        if self.resize > MAX_SIDE:
            raise ValueError(f"resize is at most {MAX_SIDE:,}")
        if self.crops not in {1, 10}:
            raise ValueError(f"crops is 1 or 10, not {self.crops}")
        if self.framing not in get_args(Framing):
            raise ValueError(f"framing is centre or whole, not '{self.framing}'")
        if self.interpolation not in get_args(Interpolation):
            known = ", ".join(get_args(Interpolation))
            raise ValueError(f"interpolation is one of {known}, not '{self.interpolation}'")
        if len(self.mean) != 3 or len(self.std) != 3 or min(self.std) <= 0:
            raise ValueError("mean and std have three numbers each, and std is positive")

    def apply(self, picture: Image.Image) -> Pixels:
        """Return an RGB picture's crops, normalised: -> (crops, 3, crop, crop) float32.

        Each crop is cut from the original and scaled separately. The result is that of scaling the
        whole picture first, but a picture of 1 x 40,000 pixels costs no more than any other.
        """
        from PIL import Image

        width, height = picture.size
        shortest = min(width, height)
        scaled_width, scaled_height = (self.resize * side // shortest for side in (width, height))
        if self.framing == "whole":
            scaled_width = scaled_height = self.resize
        right, bottom = scaled_width - self.crop, scaled_height - self.crop
        corners = [(round(right / 2), round(bottom / 2))]
        if self.crops == 10:
            corners += [(0, 0), (right, 0), (0, bottom), (right, bottom)]
        # Integers until here, and one division per edge, so that no edge leaves the picture.
        pixels = np.stack(
            [
                np.asarray(
                    picture.resize(
                        (self.crop, self.crop),
                        Image.Resampling[self.interpolation.upper()],
                        box=(
                            left * width / scaled_width,
                            top * height / scaled_height,
                            (left + self.crop) * width / scaled_width,
                            (top + self.crop) * height / scaled_height,
                        ),
                    )
                )
                for left, top in corners
            ]
        )  # (1 or 5, crop, crop, 3)
        pixels = np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))  # (1 or 5, 3, crop, crop)
        if self.crops == 10:
            pixels = np.concatenate([pixels, pixels[..., ::-1]])  # (10, 3, crop, crop)
        return self._normalise(pixels)

    def enlarged(self, times: int) -> Preprocessing:
        """Return preprocessing of whole pictures to `times` as many pixels on each side."""
        side = times * self.resize
        return replace(self, resize=side, crop=side, crops=1, framing="whole")

    def random_view(self, picture: Image.Image, draw: np.random.Generator) -> Pixels:
        """Return a random crop of an RGB picture, normalised: -> (3, crop, crop) float32."""
        pixels = resized_crop(
            picture, random_crop(draw, min_area=0.4, max_aspect=math.exp(0.25)), self.crop
        )
        view: Pixels = self._normalise(pixels.transpose(2, 0, 1)[None])[0]
        return view

    def _normalise(self, pixels: NDArray[np.uint8]) -> Pixels:
        # In numpy, because torch would start its own threads inside each decoding thread.
        scale = (1 / (255 * np.asarray(self.std))).astype(np.float32)
        shift = (np.asarray(self.mean) / np.asarray(self.std)).astype(np.float32)
        values: NDArray[np.float32] = pixels * scale[:, None, None]  # (crops, 3, crop, crop)
        values -= shift[:, None, None]
        return values


@dataclass(frozen=True, slots=True)
class CropBox:
    """A crop of a picture: its edges, as shares of the sides, and whether it is mirrored."""

    left: float
    top: float
    right: float
    bottom: float
    mirrored: bool


def random_crop(draw: np.random.Generator, min_area: float, max_aspect: float) -> CropBox:
    """Draw a crop of at least the share `min_area` of a picture, mirrored half the time.

    Its aspect ratio is between 1 / `max_aspect` and `max_aspect` times the picture's. A side is at
    most as long as the picture's, so `min_area` holds up to 1 / `max_aspect`.
    """
    area, ratio, horizontal, vertical, mirror = draw.random(5)
    area = min_area + (1 - min_area) * area
    ratio = math.exp((2 * ratio - 1) * math.log(max_aspect))
    width, height = (min(1.0, math.sqrt(area * r)) for r in (ratio, 1 / ratio))
    left, top = horizontal * (1 - width), vertical * (1 - height)
    return CropBox(left, top, left + width, top + height, bool(mirror < 0.5))


def resized_crop(picture: Image.Image, crop: CropBox, side: int) -> NDArray[np.uint8]:
    """Scale a crop of a picture to a square: -> (side, side, 3)."""
    from PIL import Image

    width, height = picture.size
    # Clipped, because rounding may put an edge just outside the picture.
    box = (
        crop.left * width,
        crop.top * height,
        min(crop.right * width, width),
        min(crop.bottom * height, height),
    )
    square = np.asarray(picture.resize((side, side), Image.Resampling.BILINEAR, box=box))
    return square[:, ::-1] if crop.mirrored else square
