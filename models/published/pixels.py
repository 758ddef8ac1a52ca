"""How a published encoder of pictures wants its pixels, from its settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from hasse.models.images.preprocessing import Framing, Interpolation, Preprocessing
from hasse.models.published.layout import Maker

# Pillow's numbers of filters, in `preprocessor_config.json`.
_FILTERS: Mapping[int, Interpolation] = {1: "lanczos", 2: "bilinear", 3: "bicubic"}
_NO_MEAN, _NO_STD = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
_CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
_CLIP_STD = (0.26862954, 0.26130258, 0.27577711)


def preprocessing_of(settings: Mapping[str, Any], maker: Maker) -> Preprocessing:
    """Return the preprocessing that settings describe.

    Raises:
        ValueError: Hasse cannot prepare pictures so; KeyError or TypeError: a value is missing or
            of another type.
    """
    return _open_clip(settings) if maker == "immich" else _transformers(settings)


def _open_clip(settings: Mapping[str, Any]) -> Preprocessing:
    """Read open_clip's settings: the shorter side is scaled and the middle cut, or both scaled."""
    side = _square(settings["size"])
    mode = settings.get("resize_mode", "shortest")
    if mode not in {"shortest", "squash"}:
        raise ValueError(f"pictures are resized by '{mode}', which Hasse cannot")
    if settings.get("mode", "RGB") != "RGB":
        raise ValueError(f"pictures have the channels {settings['mode']}, not RGB")
    interpolation = settings.get("interpolation", "bicubic")
    return Preprocessing(
        resize=side,
        crop=side,
        mean=settings.get("mean", _CLIP_MEAN),
        std=settings.get("std", _CLIP_STD),
        framing="whole" if mode == "squash" else "centre",
        # open_clip scales by any other filter, such as "random", with the bicubic one.
        interpolation=interpolation if interpolation in get_args(Interpolation) else "bicubic",
    )


def _transformers(settings: Mapping[str, Any]) -> Preprocessing:
    """Read the settings of an image processor of the Transformers library."""
    if not settings.get("do_resize", True) or not settings.get("do_rescale", True):
        raise ValueError("pictures are not scaled to one size and to [0, 1]")
    if abs(float(settings.get("rescale_factor", 1 / 255)) * 255 - 1) > 1e-3:
        raise ValueError(f"pixels are multiplied by {settings['rescale_factor']}, not 1/255")
    if settings.get("do_pad"):
        raise ValueError("pictures are padded, which Hasse cannot")
    size = settings["size"]
    framing: Framing = "whole"
    if isinstance(size, int) or "shortest_edge" in size:
        framing = "centre"
        size = size if isinstance(size, int) else size["shortest_edge"]
        if not settings.get("do_center_crop", True):
            raise ValueError("pictures are scaled but not cut to a square, which Hasse cannot")
    resize = _square(size)
    crop = resize
    if settings.get("do_center_crop", framing == "centre"):
        crop = _square(settings.get("crop_size", resize))
    number = settings.get("resample", 3)
    if number not in _FILTERS:
        raise ValueError(f"pictures are scaled by Pillow's filter {number}, which Hasse cannot")
    normalised = settings.get("do_normalize", True)
    return Preprocessing(
        resize=resize,
        crop=crop,
        mean=settings["image_mean"] if normalised else _NO_MEAN,
        std=settings["image_std"] if normalised else _NO_STD,
        framing=framing,
        interpolation=_FILTERS[number],
    )


def _square(size: Any) -> int:
    """Return the side of a square of a number, a pair, or a height and a width."""
    if isinstance(size, Mapping):
        size = (size["height"], size["width"])
    height, width = size if isinstance(size, list | tuple) else (size, size)
    if height != width:
        raise ValueError(f"pictures have {height} x {width} pixels: Hasse takes squares")
    return int(height)
