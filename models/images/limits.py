"""Size limits of pictures, and the error for refused pictures. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hasse.models.errors import HasseError

Reason = Literal["not_a_picture", "too_many_pixels", "damaged", "missing_package"]


class PictureError(HasseError):
    """A picture that cannot be decoded; `reason` is for programs, the message for people."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason: Reason = reason

    def __reduce__(self) -> tuple[type[PictureError], tuple[Reason, str]]:
        """Pickle both arguments, to pass the error between processes."""
        return type(self), (self.reason, str(self))


@dataclass(frozen=True, slots=True)
class PictureLimits:
    """Limits on the cost of decoding a picture.

    Attributes:
        pixels: maximum number of decoded pixels.
        seconds: maximum processor time for one picture, rounded up to whole seconds.
    """

    pixels: int = 50_000_000
    seconds: float = 10.0

    @property
    def reducible_pixels(self) -> int:
        """Maximum number of pixels of a picture that is decoded at a reduced size."""
        return 10 * self.pixels

    @property
    def scan_pixels(self) -> int:
        """Maximum number of pixels of all scans of a JPEG together.

        A progressive JPEG has about ten scans, and each goes through all pixels. A file of 1 MB
        can have hundreds.
        """
        return 40 * self.pixels

    @property
    def file_bytes(self) -> int:
        """Maximum size of a file: 16-bit colours with alpha take 8 bytes a pixel."""
        return 16 * self.reducible_pixels

    @property
    def memory(self) -> int:
        """Address space of a decoding process: its libraries, and 32 bytes a pixel."""
        return 1_000_000_000 + 32 * self.pixels


DEFAULT_LIMITS = PictureLimits()


def too_many_pixels(width: int, height: int, limit: int) -> PictureError:
    """Return the error for a picture that is too large."""
    return PictureError(
        "too_many_pixels", f"{width:,} x {height:,} pixels are more than the limit of {limit:,}"
    )
