"""From the bytes of a picture to the numbers a network reads.

Pictures come from strangers. A format outside the allow-list, or more pixels than the limit, is
refused before anything is decoded, so that memory is bounded by the limit and not by the file
(a PNG of 420 kB can hold 144 megapixels), and so is what takes a minute for each megabyte: a JPEG
that draws its pixels over and over, a PNG of a thousand colour profiles, either with a million
notes. A picture that is cut short is refused, not shown grey.
"""

from __future__ import annotations

import errno
import hashlib
import math
import re
import stat
import struct
import warnings
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import IO, Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageFile
from PIL.GifImagePlugin import GifImageFile
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile
from PIL.WebPImagePlugin import WebPImageFile
from torch import Tensor

from models.errors import HasseError

MAX_PIXELS = 50_000_000
MAX_SIDE = 16_384  # of what a network looks at
MAX_SCANS = 100  # of a JPEG: programs make some ten, and each goes through all of its pixels
MAX_PROFILES = 10  # of a PNG, which has one at most; each may be a megabyte when it is inflated
MAX_NOTES = 10_000  # of a JPEG or a PNG beside its pixels; Pillow takes 10 us and more for each
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)

Framing = Literal["centre", "whole"]
Reason = Literal["not_a_picture", "too_many_pixels", "damaged"]

# A broken note inside a picture (EXIF, animation) spoils no pixel: no warning of it.
warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")
# Pillow only warns of a GIF whose first frame is far larger than its screen; we refuse it.
warnings.filterwarnings("error", category=Image.DecompressionBombWarning)
_BOMBS = (Image.DecompressionBombWarning, Image.DecompressionBombError)

# What Pillow's readers raise on bytes that are not what their first ones promised.
_READ_ERRORS = (
    OSError,
    SyntaxError,
    ValueError,
    EOFError,
    IndexError,
    KeyError,
    TypeError,
    AttributeError,
    OverflowError,
    struct.error,
    zlib.error,
    UserWarning,  # where a program has turned all warnings into errors
)

# What the system lacks where a picture may be good: room for one more file, memory, or the machine
# whose disk it is on. A disk that cannot read a sector has damaged what is there.
_NOT_OF_THE_PICTURE = frozenset(
    {
        *(errno.EMFILE, errno.ENFILE, errno.ENOMEM),
        *(errno.ENOTCONN, errno.ESTALE, errno.ETIMEDOUT, errno.EHOSTDOWN),
    }
)

# A JPEG's end, and its markers that a length follows: no stuffed or filling byte, no restart. What
# belongs to a marker is skipped, so that a JPEG inside another is not looked at.
_MARKER = re.compile(rb"\xff([^\x00\x01\xff\xd0-\xd7])")
_SCAN, _END = b"\xda", b"\xd9"

# What brings the one colour that a PNG calls transparent to the depth that Pillow gives its pixels,
# by how they lie in the file. It leaves out the lower of 16 bits, here as there.
_TO_8_BITS: Mapping[str, Callable[[Any], Any]] = {
    "L;2": lambda grey: grey * 85,
    "L;4": lambda grey: grey * 17,
    "RGB;16B": lambda colour: tuple(value >> 8 for value in colour),
}

# EXIF's orientation tag (0x0112), and what undoes each of its values.
_ORIENTATION = 0x0112
_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


class PictureError(HasseError):
    """A picture that cannot be used; `reason` is for programs, the message for people."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason: Reason = reason


def open_picture(
    source: Path | bytes, max_pixels: int = MAX_PIXELS, at_least: int | None = None
) -> Image.Image:
    """Decode a JPEG, PNG, WebP or GIF (its first frame) to upright RGB.

    Transparency is laid on white; CMYK, 16-bit, grey and palette pictures are converted. With
    `at_least`, a JPEG may come out smaller by a power of two, which is several times quicker, its
    shortest side still at least that many pixels. Takes at most about 17 bytes of memory for each
    of `max_pixels`.

    Raises:
        PictureError: not one of the four formats, too many pixels, damaged, or of more than
            `MAX_SCANS` scans, `MAX_PROFILES` profiles or `MAX_NOTES` notes.
        OSError: the system has no more files or memory to give, or cannot reach the disk, which
            says nothing of the picture.
    """
    try:
        with _stream(source) as file:
            picture = _read_header(file, max_pixels, whole=True)
            if at_least is not None and isinstance(picture, JpegImageFile):
                picture.draft(None, (at_least, at_least))
            layout = str(picture.tile[0].args) if isinstance(picture, PngImageFile) else ""
            picture.load()
            clear = picture.info.get("transparency")
            if clear is not None and layout in _TO_8_BITS:
                picture.info["transparency"] = _TO_8_BITS[layout](clear)
            upright = _upright(picture)
            del picture  # a WebP's reader holds its pixels three times
            return _to_rgb(upright)
    except _READ_ERRORS as error:
        raise_system_error(error)
        detail = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise PictureError("damaged", f"damaged or cut short ({detail})") from error


def picture_size(source: Path | bytes, max_pixels: int = MAX_PIXELS) -> tuple[int, int]:
    """Return a picture's width and height as it is displayed, reading its header alone.

    A note behind the pixels of a PNG, that it is to be turned, is not seen.

    Raises:
        PictureError: as `open_picture`, as far as the header shows it.
        OSError: as `open_picture`.
    """
    try:
        with _stream(source) as file:
            picture = _read_header(file, max_pixels, whole=False)
            width, height = picture.size
            # A PNG's EXIF may come after its pixels; to look for it there would decode them.
            is_read = not isinstance(picture, PngImageFile) or "exif" in picture.info
            sideways = is_read and _orientation(picture) >= 5
            return (height, width) if sideways else (width, height)
    except _READ_ERRORS as error:
        raise_system_error(error)
        raise PictureError("damaged", f"damaged or cut short ({error})") from error


def raise_system_error(error: Exception) -> None:
    """Raise again what went wrong as a picture was read, if it says nothing of the picture."""
    if isinstance(error, OSError) and error.errno in _NOT_OF_THE_PICTURE:
        raise error


def picture_stamp(path: Path) -> int:
    """Return 63 bits of a picture's size in bytes and time of change, or 0 where there is none.

    Archives keep whole seconds of a time, so those are what counts.
    """
    try:
        found = path.stat()
    except OSError:
        return 0
    digest = hashlib.sha256(f"{found.st_size} {int(found.st_mtime)}".encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def _stream(source: Path | bytes) -> IO[bytes]:
    if isinstance(source, bytes):
        return BytesIO(source)
    try:
        # A pipe or a device would be waited for, or never end.
        if not stat.S_ISREG(source.stat().st_mode):
            raise PictureError("not_a_picture", "not a file")
        return source.open("rb")
    except FileNotFoundError as error:
        raise PictureError("not_a_picture", "file not found") from error
    except PermissionError as error:
        raise PictureError("not_a_picture", "no permission to read the file") from error


def _read_header(file: IO[bytes], max_pixels: int, *, whole: bool) -> ImageFile.ImageFile:
    """Read what comes before the pixels, of a file that will be read `whole`, or no further."""
    start = file.read(16)
    file.seek(0)
    reader = _reader(start)
    if reader is JpegImageFile:
        _check_jpeg(file, _END if whole else _SCAN)
    elif reader is PngImageFile:
        _check_png(file, b"IEND" if whole else b"IDAT")
    file.seek(0)
    try:
        picture = reader(file)
    except _BOMBS as error:
        raise PictureError("too_many_pixels", f"more than {max_pixels:,} pixels") from error
    width, height = picture.size
    if width * height > max_pixels:
        raise PictureError(
            "too_many_pixels",
            f"{width:,} x {height:,} pixels are more than the limit of {max_pixels:,}",
        )
    return picture


def _reader(start: bytes) -> type[ImageFile.ImageFile]:
    if start.startswith(b"\xff\xd8\xff"):
        return JpegImageFile
    if start.startswith(b"\x89PNG\r\n\x1a\n"):
        return PngImageFile
    if start.startswith(b"RIFF") and start[8:12] == b"WEBP":
        return WebPImageFile
    if start.startswith((b"GIF87a", b"GIF89a")):
        return GifImageFile
    found = "the file is empty" if not start else "not a JPEG, PNG, WebP or GIF picture"
    raise PictureError("not_a_picture", found)


def _check_png(file: IO[bytes], last: bytes) -> None:
    """Refuse a PNG that has too much beside its pixels, up to the first chunk of a kind."""
    notes, profiles, at = 0, 0, 8
    while notes <= MAX_NOTES and profiles <= MAX_PROFILES:
        file.seek(at)
        head = file.read(8)
        kind = head[4:]
        if len(head) < 8 or kind == last:
            return
        notes += kind != b"IDAT"
        profiles += kind == b"iCCP"
        at += 12 + int.from_bytes(head[:4], "big")  # the length, the kind, a sum behind the rest
    raise _too_much(notes, f"{MAX_PROFILES} colour profiles")


def _check_jpeg(file: IO[bytes], last: bytes) -> None:
    """Refuse a JPEG that would be decoded for hours, up to the first marker of a kind.

    A scan of all pixels can be 75 bytes long.
    """
    notes, scans, at = 0, 0, 2
    while notes <= MAX_NOTES and scans <= MAX_SCANS:
        file.seek(at)
        size = 65_536 if scans else 4096  # notes are short, and scans are not
        part = file.read(size)
        marker = _MARKER.search(part)
        if marker is None:
            if len(part) < size:
                return
            at += len(part) - 1  # it may begin with the last byte
            continue
        if marker[1] in {last, _END}:
            return
        file.seek(at + marker.end())
        at += marker.end() + max(2, int.from_bytes(file.read(2), "big"))
        notes += marker[1] != _SCAN
        scans += marker[1] == _SCAN
    raise _too_much(notes, f"{MAX_SCANS} scans")


def _too_much(notes: int, other: str) -> PictureError:
    what = f"{MAX_NOTES:,} notes beside its pixels" if notes > MAX_NOTES else other
    return PictureError("damaged", f"it has more than {what}")


def _orientation(picture: Image.Image) -> int:
    try:
        value = picture.getexif().get(_ORIENTATION, 1)
    except (*_READ_ERRORS, ZeroDivisionError):
        # The pixels are worth more than a broken note about them.
        return 1
    return value if isinstance(value, int) else 1


def _upright(picture: Image.Image) -> Image.Image:
    turn = _UPRIGHT.get(_orientation(picture))
    return picture if turn is None else picture.transpose(turn)


def _to_rgb(picture: Image.Image) -> Image.Image:
    if picture.mode.startswith("I"):
        # Pillow would clip 16 bits at 255, which is nearly all white.
        values = np.asarray(picture)
        levels = (values >> 8).astype(np.uint8)
        clear = picture.info.get("transparency")
        if clear is not None:
            levels[values == clear] = 255
        return Image.fromarray(levels).convert("RGB")
    if picture.mode in {"LA", "RGBA"} or "transparency" in picture.info:
        layered = picture if picture.mode == "RGBA" else picture.convert("RGBA")
        page = Image.new("RGB", picture.size, "white")
        page.paste(layered, mask=layered.getchannel("A"))
        return page
    return picture if picture.mode == "RGB" else picture.convert("RGB")


@dataclass(frozen=True, slots=True)
class Preprocessing:
    """How a picture becomes a network's input: part of a model, stored with its weights.

    Attributes:
        resize: pixels the shortest side is scaled to (antialiased, bilinear).
        framing: "centre" keeps a picture's proportions, so that the crops may miss its ends;
            "whole" scales both sides to `resize`, so that nothing is missed.
        crop: pixels of the square that is cut from it.
        crops: 1 (the centre), or 10 (centre and corners, each also mirrored), as the paper has.
        mean: subtracted from the red, green and blue channels, which lie in [0, 1].
        std: what they are then divided by.
    """

    resize: int = 256
    crop: int = 224
    crops: int = 1
    mean: tuple[float, float, float] = IMAGENET_MEAN
    std: tuple[float, float, float] = IMAGENET_STD
    framing: Framing = "centre"

    def __post_init__(self) -> None:
        """Take the lists that JSON has for tuples, and refuse what makes no sense (ValueError)."""
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
        if len(self.mean) != 3 or len(self.std) != 3 or min(self.std) <= 0:
            raise ValueError("mean and std have three numbers each, and std is positive")

    def apply(self, picture: Image.Image) -> Tensor:
        """Return an RGB picture's crops, normalised: -> (crops, 3, crop, crop) float32.

        Each crop is cut out of the original and scaled by itself, which gives what scaling the
        whole first would: a picture of 1 x 40,000 pixels then costs no more than any other.
        """
        width, height = picture.size
        short = min(width, height)
        across, down = (self.resize * side // short for side in (width, height))
        if self.framing == "whole":
            across = down = self.resize
        if self.crops == 1:
            corners = [(_half(across - self.crop), _half(down - self.crop))]
        else:
            right, bottom = across - self.crop, down - self.crop
            corners = [
                (_half(right), _half(bottom)),
                (0, 0),
                (right, 0),
                (0, bottom),
                (right, bottom),
            ]
        # Integers until here, and one division per edge, so that no edge leaves the picture.
        pixels = np.stack(
            [
                np.asarray(
                    picture.resize(
                        (self.crop, self.crop),
                        Image.Resampling.BILINEAR,
                        box=(
                            left * width / across,
                            top * height / down,
                            (left + self.crop) * width / across,
                            (top + self.crop) * height / down,
                        ),
                    )
                )
                for left, top in corners
            ]
        )  # (1 or 5, crop, crop, 3)
        pixels = np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))  # (1 or 5, 3, crop, crop)
        if self.crops == 10:
            pixels = np.concatenate([pixels, pixels[..., ::-1]])  # (10, 3, crop, crop)
        return torch.from_numpy(self._normalise(pixels))

    def vary(self, picture: Image.Image, draw: np.random.Generator) -> Tensor:
        """Return a random cut of an RGB picture, normalised: -> (3, crop, crop) float32."""
        pixels = resized_crop(
            picture, random_crop(draw, smallest=0.4, longest=math.exp(0.25)), self.crop
        )
        return torch.from_numpy(self._normalise(pixels.transpose(2, 0, 1)[None])[0])

    def _normalise(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        # In numpy, since torch would start its own threads inside each decoding thread.
        scale = (1 / (255 * np.asarray(self.std))).astype(np.float32)
        shift = (np.asarray(self.mean) / np.asarray(self.std)).astype(np.float32)
        values: NDArray[np.float32] = pixels * scale[:, None, None]  # (crops, 3, crop, crop)
        values -= shift[:, None, None]
        return values


@dataclass(frozen=True, slots=True)
class Cut:
    """A part of a picture: its edges, in shares of the sides, and whether it is mirrored."""

    left: float
    top: float
    right: float
    bottom: float
    mirrored: bool


def random_crop(draw: np.random.Generator, smallest: float, longest: float) -> Cut:
    """Draw a cut of at least `smallest` of the area that lies anywhere, mirrored half the time.

    Its sides have a ratio between 1 / `longest` and `longest` times the picture's. One that would
    be longer than the picture is cut off there, so `smallest` holds up to 1 / `longest`.
    """
    area, ratio, across, down, mirror = draw.random(5)
    area = smallest + (1 - smallest) * area
    ratio = math.exp((2 * ratio - 1) * math.log(longest))
    width, height = (min(1.0, math.sqrt(area * r)) for r in (ratio, 1 / ratio))
    left, top = across * (1 - width), down * (1 - height)
    return Cut(left, top, left + width, top + height, bool(mirror < 0.5))


def resized_crop(picture: Image.Image, cut: Cut, side: int) -> NDArray[np.uint8]:
    """Scale a cut of a picture to a square: -> (side, side, 3)."""
    across, down = picture.size
    # Clipped, since sums of floats may leave the picture by a hair.
    box = (
        cut.left * across,
        cut.top * down,
        min(cut.right * across, across),
        min(cut.bottom * down, down),
    )
    square = np.asarray(picture.resize((side, side), Image.Resampling.BILINEAR, box=box))
    return square[:, ::-1] if cut.mirrored else square


def normalise_pixels(
    pixels: Tensor,
    mean: tuple[float, float, float] = IMAGENET_MEAN,
    std: tuple[float, float, float] = IMAGENET_STD,
) -> Tensor:
    """Return 8-bit pictures as a network reads them: (B, H, W, 3) -> (B, 3, H, W) float32.

    They stay channels-last in memory, which is how convolutions like them on the CPU.
    """
    batch = pixels.permute(0, 3, 1, 2).float()
    shift, scale = (batch.new_tensor(v).view(3, 1, 1) for v in (mean, std))
    return batch.div_(255).sub_(shift).div_(scale)


def _half(pixels: int) -> int:
    return round(pixels / 2)
