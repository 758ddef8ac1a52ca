"""Tell the format of a picture from its first bytes; names and extensions are not trusted."""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import Path

START = 64  # bytes that tell a format

# What files of pictures are usually called. It saves opening them; their bytes decide.
PICTURE_SUFFIXES = frozenset({".gif", ".jfif", ".jpe", ".jpeg", ".jpg", ".png", ".webp"})


@dataclass(frozen=True, slots=True)
class Format:
    """A format that is read: what people call it, its media type and its usual extension."""

    name: str
    media_type: str
    suffix: str


JPEG = Format("JPEG", "image/jpeg", ".jpg")
PNG = Format("PNG", "image/png", ".png")
WEBP = Format("WebP", "image/webp", ".webp")
GIF = Format("GIF", "image/gif", ".gif")


def format_of(start: bytes) -> Format | None:
    """Return the format of a file by its first `START` bytes; None if it is not one we read."""
    if start.startswith(b"\xff\xd8\xff"):
        return JPEG
    if start.startswith(b"\x89PNG\r\n\x1a\n"):
        return PNG
    if start.startswith(b"RIFF") and start[8:12] == b"WEBP":
        return WEBP
    if start.startswith((b"GIF87a", b"GIF89a")):
        return GIF
    return None


def is_picture(path: Path) -> bool:
    """Tell whether a file begins like a picture; raises OSError if it cannot be read."""
    if not stat.S_ISREG(path.stat().st_mode):  # a pipe would block
        return False
    with path.open("rb") as file:
        return format_of(file.read(START)) is not None
