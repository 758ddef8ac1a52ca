"""Names of pretrained encoders, `LIBRARY/NAME`, and the shorter names in older files."""

from __future__ import annotations

LITE = "timm/tf_efficientnet_lite2"
_OLD_LITE, _TORCHVISION = "efficientnet_lite2", "torchvision/"


def full_name(name: str) -> str:
    """Return an encoder's name with its library, which old files omit."""
    if name == _OLD_LITE:
        return LITE
    return name if "/" in name else f"{_TORCHVISION}{name}"


def short_name(name: str) -> str:
    """Return an encoder's name as in the oldest files, for fingerprints."""
    return _OLD_LITE if name == LITE else name.removeprefix(_TORCHVISION)
