"""Pictures as strangers send them: odd but right ones, and ones that must be refused."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable, Mapping

import numpy as np
import pillow_heif
from PIL import Image

from tests.models.images.pictures import scanned
from tests.models.images.raw_pictures import dng
from tests.service.collection import picture

Refusal = tuple[int, str]

NOT_A_PICTURE: Refusal = (415, "not_a_picture")
TOO_MANY_PIXELS: Refusal = (413, "too_many_pixels")
DAMAGED: Refusal = (422, "damaged_picture")


def encoded(image: Image.Image, form: str, **how: object) -> bytes:
    """Return a picture's bytes in a format."""
    out = io.BytesIO()
    image.save(out, form, **how)
    return out.getvalue()


def png_header(width: int, height: int, depth: int = 8, colour: int = 2) -> bytes:
    """Return the start of a PNG that claims a size, and has next to no pixels."""
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in ((b"IHDR", header), (b"IDAT", zlib.compress(b"\0")), (b"IEND", b""))
    )


def _sixteen_bit() -> Image.Image:
    return Image.fromarray(np.arange(64 * 48, dtype=np.uint16).reshape(48, 64) * 20)


def _heic() -> bytes:
    out = io.BytesIO()
    pillow_heif.from_pillow(picture(1)).save(out)
    return out.getvalue()


def _turned() -> bytes:
    exif = Image.Exif()
    exif[0x0112] = 6
    return encoded(picture(1), "JPEG", exif=exif)


def _broken_exif() -> bytes:
    return encoded(picture(1), "JPEG", exif=b"Exif\0\0II*\0" + b"\xff" * 64)


def _animated(form: str) -> bytes:
    frames = [picture(at) for at in range(3)]
    return encoded(frames[0], form, save_all=True, append_images=frames[1:])


def _bomb() -> bytes:
    # 12,000 x 12,000 pixels of one colour: some 400 kB that unpack to 432 MB.
    row = b"\0" + bytes(12_000 * 3)
    packer = zlib.compressobj(9)
    pixels = b"".join(packer.compress(row) for _ in range(600)) + packer.flush()
    start = png_header(12_000, 12_000)
    at = start.index(b"IDAT") - 4
    chunk = b"IDAT" + pixels
    return (
        start[:at] + struct.pack(">I", len(pixels)) + chunk + struct.pack(">I", zlib.crc32(chunk))
    )


def _scans() -> bytes:
    # Each goes through all pixels again, and is a few bytes long.
    return scanned(1000, (2000, 1100))


def _profiles() -> bytes:
    # Each is a megabyte when it is inflated.
    chunk = b"iCCP" + b"x\0\0" + zlib.compress(bytes(1_000_000), 9)
    chunk = struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk))
    data = encoded(picture(1), "PNG")
    at = data.index(b"IDAT") - 4
    return data[:at] + chunk * 1000 + data[at:]


GOOD: Mapping[str, Callable[[], bytes]] = {
    "JPEG": lambda: encoded(picture(1), "JPEG"),
    "progressive JPEG": lambda: encoded(picture(1), "JPEG", progressive=True),
    "grey JPEG": lambda: encoded(picture(1).convert("L"), "JPEG"),
    "CMYK JPEG": lambda: encoded(picture(1).convert("CMYK"), "JPEG"),
    "turned JPEG": _turned,
    "JPEG with broken EXIF": _broken_exif,
    "JPEG with a tail": lambda: encoded(picture(1), "JPEG") + b"tail" * 1000,
    "PNG": lambda: encoded(picture(1), "PNG"),
    "PNG with alpha": lambda: encoded(picture(1).convert("RGBA"), "PNG"),
    "grey PNG with alpha": lambda: encoded(picture(1).convert("LA"), "PNG"),
    "palette PNG": lambda: encoded(picture(1).convert("P"), "PNG"),
    "palette PNG with transparency": lambda: encoded(
        picture(1).convert("P"), "PNG", transparency=0
    ),
    "one-bit PNG": lambda: encoded(picture(1).convert("1"), "PNG"),
    "16-bit PNG": lambda: encoded(_sixteen_bit(), "PNG"),
    "interlaced GIF": lambda: encoded(picture(1), "GIF", interlace=True),
    "animated GIF": lambda: _animated("GIF"),
    "animated PNG": lambda: _animated("PNG"),
    "WebP": lambda: encoded(picture(1), "WEBP"),
    "lossless WebP with alpha": lambda: encoded(picture(1).convert("RGBA"), "WEBP", lossless=True),
    "animated WebP": lambda: _animated("WEBP"),
    "PNG of a thousand colour profiles": _profiles,
    "JPEG without its end": lambda: encoded(picture(1), "JPEG")[:-2],
    "AVIF": lambda: encoded(picture(1), "AVIF"),
    "TIFF": lambda: encoded(picture(1), "TIFF"),
    "TIFF by JPEG": lambda: encoded(picture(1), "TIFF", compression="jpeg"),
    "CMYK TIFF": lambda: encoded(picture(1).convert("CMYK"), "TIFF"),
    "BMP": lambda: encoded(picture(1), "BMP"),
    "HEIC": _heic,
    "RAW": dng,
    "RAW with a preview": lambda: dng(preview=picture(1, (300, 280))),
    "JPEG 2000": lambda: encoded(picture(1), "JPEG2000"),
    "1 x 1": lambda: encoded(picture(1, (1, 1)), "PNG"),
    "1 x 1 JPEG": lambda: encoded(picture(1, (1, 1)), "JPEG"),
    "1 x 4,000": lambda: encoded(picture(1, (1, 4000)), "PNG"),
    "4,000 x 1": lambda: encoded(picture(1, (4000, 1)), "JPEG"),
}

BAD: Mapping[str, tuple[Callable[[], bytes], Refusal]] = {
    "nothing": (lambda: b"", NOT_A_PICTURE),
    "one byte": (lambda: b"\xff", NOT_A_PICTURE),
    "a text": (lambda: b"This is not a picture.\n" * 50, NOT_A_PICTURE),
    "zero bytes": (lambda: bytes(10_000), NOT_A_PICTURE),
    "HTML": (lambda: b"<html><script>alert(1)</script></html>", NOT_A_PICTURE),
    "SVG": (lambda: b'<svg xmlns="http://www.w3.org/2000/svg"/>', NOT_A_PICTURE),
    "ICO": (lambda: encoded(picture(1), "ICO"), NOT_A_PICTURE),
    "PPM": (lambda: encoded(picture(1), "PPM"), NOT_A_PICTURE),
    "PDF": (lambda: encoded(picture(1), "PDF"), NOT_A_PICTURE),
    "EPS": (lambda: encoded(picture(1), "EPS"), NOT_A_PICTURE),
    "ZIP": (lambda: b"PK\x03\x04" + bytes(100), NOT_A_PICTURE),
    "a program": (lambda: b"\x7fELF" + bytes(100), NOT_A_PICTURE),
    "a bomb": (_bomb, TOO_MANY_PIXELS),
    "10^10 pixels": (lambda: png_header(100_000, 100_000), TOO_MANY_PIXELS),
    "the largest PNG": (lambda: png_header(2**31 - 1, 2**31 - 1), TOO_MANY_PIXELS),
    "a GIF of 65,535 x 65,535": (
        lambda: (
            b"GIF89a\xff\xff\xff\xff\x80\0\0" + bytes(6) + b",\0\0\0\0\xff\xff\xff\xff\0\x02\0;"
        ),
        TOO_MANY_PIXELS,
    ),
    "a JPEG that is drawn a thousand times": (_scans, DAMAGED),
    "a PNG of no width": (lambda: png_header(0, 10), DAMAGED),
    "a PNG without pixels": (lambda: png_header(100, 100), DAMAGED),
    "only the start of a JPEG": (lambda: b"\xff\xd8\xff", DAMAGED),
    "only the start of a PNG": (lambda: b"\x89PNG\r\n\x1a\n", DAMAGED),
    "only the start of a GIF": (lambda: b"GIF89a", DAMAGED),
    "only the start of a WebP": (lambda: b"RIFF\x10\0\0\0WEBP", DAMAGED),
    "half a JPEG": (lambda: (b := encoded(picture(1), "JPEG"))[: len(b) // 2], DAMAGED),
    "half a PNG": (lambda: (b := encoded(picture(1), "PNG"))[: len(b) // 2], DAMAGED),
    "half a GIF": (lambda: (b := encoded(picture(1), "GIF"))[: len(b) // 2], DAMAGED),
    "half a WebP": (lambda: (b := encoded(picture(1), "WEBP"))[: len(b) // 2], DAMAGED),
    "a WAV": (lambda: b"RIFF\x10\0\0\0WAVEfmt " + bytes(100), NOT_A_PICTURE),
}
