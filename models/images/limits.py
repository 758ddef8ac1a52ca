"""Which pictures are refused, and what is said of them. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hasse.models.errors import HasseError

MAX_SCANS = 100  # of a JPEG: programs write about ten, and each goes through all pixels
MAX_METADATA = 10_000  # blocks beside the pixels of a JPEG or PNG

Reason = Literal["not_a_picture", "too_many_pixels", "damaged", "missing_package"]


class PictureError(HasseError):
    """A picture that cannot be decoded; `reason` is for programs, the message for people."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason: Reason = reason


@dataclass(frozen=True, slots=True)
class PictureLimits:
    """How large a picture may be. Memory for decoding is bounded by it.

    Attributes:
        pixels: most pixels that are decoded.
    """

    pixels: int = 50_000_000

    @property
    def reducible(self) -> int:
        """Most pixels of a picture that can be decoded at a reduced size."""
        return 10 * self.pixels


DEFAULT_LIMITS = PictureLimits()


def too_many_pixels(width: int, height: int, most: int) -> PictureError:
    """Return the error for a picture that is too large."""
    return PictureError(
        "too_many_pixels", f"{width:,} x {height:,} pixels are more than the limit of {most:,}"
    )
