"""Names of pretrained encoders, `LIBRARY/NAME`, and the shorter ones that older files have."""

from __future__ import annotations

from typing import Literal, TypeAlias

# What encodes pictures: OpenVINO, or torch in one of two types.
Runtime: TypeAlias = Literal["auto", "openvino", "float32", "bfloat16"]

LITE = "timm/tf_efficientnet_lite2"
_OLD_LITE, _TORCHVISION = "efficientnet_lite2", "torchvision/"


def full_name(name: str) -> str:
    """Return an encoder's name; files may have it without its library."""
    if name == _OLD_LITE:
        return LITE
    return name if "/" in name else f"{_TORCHVISION}{name}"


def short_name(name: str) -> str:
    """Return an encoder's name as the oldest files have it, on which fingerprints depend."""
    return _OLD_LITE if name == LITE else name.removeprefix(_TORCHVISION)
