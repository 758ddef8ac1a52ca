"""However large a picture is, memory for it is bounded."""

from __future__ import annotations

import pickle
import struct
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from hasse.models.images.decoding import open_picture, picture_size
from hasse.models.images.limits import PictureError, PictureLimits
from tests.models.images.pictures import encode, flat, noise, png_header, refusal

CLEAR = Path("/proc/self/clear_refs")  # starts a process's peak of memory again


def opened(folder: Path, *before: Path) -> tuple[list[str], int, str]:
    """Open all pictures of a folder in a process of its own, after some that do not count.

    Returns:
        what was said of those that were refused, by how many bytes its memory was larger at its
        peak, and what came by stderr.
    """
    program = (
        "import re, sys; from pathlib import Path\n"
        "from hasse.models.images.codecs import decode\n"
        "from hasse.models.images.limits import PictureError, PictureLimits\n"
        "def read(path):\n"
        "    with path.open('rb') as file: decode(file, PictureLimits())\n"
        "def now(): return [int(x) for x in re.findall(\n"
        "    r'(?:VmHWM|VmRSS):\\s+(\\d+) kB', Path('/proc/self/status').read_text())]\n"
        "for path in sys.argv[2:]: read(Path(path))\n"
        f"Path('{CLEAR}').write_text('5')\n"
        "start = now()[1]\n"
        "for path in Path(sys.argv[1]).iterdir():\n"
        "    try: read(path)\n"
        "    except PictureError as error: print(error.reason, error)\n"
        "print(now()[0] - start)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", program, str(folder), *map(str, before)],
        capture_output=True,
        text=True,
        check=True,
    )
    *said, kilobytes = done.stdout.splitlines()
    return said, 1024 * int(kilobytes), done.stderr


@pytest.mark.skipif(not CLEAR.exists(), reason="the kernel does not tell a process its peak")
def test_bomb_is_refused_before_it_is_decoded(tmp_path: Path) -> None:
    # Decoded it is 432 MB and more.
    bomb = encode(Image.new("1", (12_000, 12_000)).convert("L"), "PNG")
    (tmp_path / "bomb.png").write_bytes(bomb)
    said, grown, errors = opened(tmp_path)
    assert said == ["too_many_pixels 12,000 x 12,000 pixels are more than the limit of 50,000,000"]
    assert grown < 100_000_000  # usually none
    assert errors == ""  # Pillow's own warning does not leak


@pytest.mark.skipif(not CLEAR.exists(), reason="the kernel does not tell a process its peak")
def test_picture_takes_no_more_memory_than_documented(tmp_path: Path) -> None:
    turned = Image.Exif()
    turned[0x0112] = 6
    small, large = 30, 3000
    for side in (small, large):
        picture = flat((200, 30, 40, 128), "RGBA", (side, side))
        (tmp_path / str(side)).mkdir()
        for at, exif in enumerate((Image.Exif(), turned)):
            for form, how in (("WEBP", {"lossless": True}), ("PNG", {})):
                data = encode(picture, form, exif=exif, **how)
                (tmp_path / str(side) / f"{at}.{form}").write_bytes(data)
    # Small ones come first, so that the pages of libraries are there already.
    said, grown, _ = opened(tmp_path / str(large), *(tmp_path / str(small)).iterdir())
    assert said == []
    assert grown < 20 * large**2  # 17 are usual; one more copy is 4


def test_limit_is_the_callers_and_holds_for_every_size() -> None:
    data = encode(noise(48, 32), "PNG")
    assert open_picture(data, limits=PictureLimits(48 * 32)).size == (48, 32)
    assert refusal(data, limits=PictureLimits(48 * 32 - 1)).reason == "too_many_pixels"
    for size in ((65_535, 65_535), (2**31 - 1, 2**31 - 1), (10_000, 9_000), (20_000, 20_000)):
        with warnings.catch_warnings(record=True) as leaked:
            warnings.simplefilter("always")
            assert refusal(png_header(*size)).reason == "too_many_pixels"
        assert leaked == []


def test_gif_whose_frame_is_far_larger_than_its_screen_is_refused() -> None:
    data = bytearray(encode(flat((1, 2, 3)), "GIF"))
    at = data.index(b",\0\0\0\0")
    data[at + 5 : at + 9] = struct.pack("<HH", 60_000, 60_000)
    assert refusal(bytes(data)).reason == "too_many_pixels"


def test_draft_is_smaller_but_never_below_what_was_asked() -> None:
    picture = noise(90, 70).resize((1800, 1400))
    data = encode(picture, "JPEG")
    assert open_picture(data, at_least=256).size == (450, 350)
    assert open_picture(data, at_least=700).size == (900, 700)
    assert open_picture(data, at_least=701).size == (1800, 1400)
    small = np.asarray(open_picture(data, at_least=256)).astype(float)
    whole = np.asarray(open_picture(data).resize((450, 350), Image.Resampling.BOX)).astype(float)
    assert np.abs(small - whole).mean() < 3


def test_jpeg_above_the_limit_is_decoded_smaller_up_to_ten_times_the_limit() -> None:
    picture = noise(90, 60).resize((900, 600))
    data = encode(picture, "JPEG")
    for pixels, size in ((540_000, (900, 600)), (539_999, (450, 300)), (60_000, (225, 150))):
        limits = PictureLimits(pixels)
        assert open_picture(data, limits).size == size
        assert picture_size(data, limits) == (900, 600)
        assert open_picture(data, limits, at_least=64).size == (113, 75)
    for read in (open_picture, picture_size):
        with pytest.raises(PictureError, match=r"900 x 600 pixels are more than .* 539,990"):
            read(data, PictureLimits(53_999))


def test_jpeg_that_is_held_whole_in_memory_has_a_lower_limit() -> None:
    data = encode(noise(90, 60).resize((900, 600)), "JPEG", progressive=True)
    coefficients = 900 * 600 * 3
    assert open_picture(data, PictureLimits(coefficients // 8)).size == (450, 300)
    refused = refusal(data, limits=PictureLimits(coefficients // 8 - 1))
    assert refused.reason == "too_many_pixels"


def test_tiff_of_larger_tiles_than_the_limit_is_refused() -> None:
    data = encode(noise(), "TIFF", compression="tiff_lzw")
    (directory,) = struct.unpack_from("<I", data, 4)
    (count,) = struct.unpack_from("<H", data, directory)
    entries = [data[directory + 2 + 12 * at :][:12] for at in range(count)]
    rows_per_strip = struct.pack("<H", 278)
    entries = [entry for entry in entries if not entry.startswith(rows_per_strip)]
    entries += [struct.pack("<HHII", tag, 4, 1, 100_000) for tag in (322, 323)]
    tiled = struct.pack("<H", len(entries)) + b"".join(entries) + bytes(4)
    refused = refusal(data[:4] + struct.pack("<I", len(data)) + data[8:] + tiled)
    assert (refused.reason, str(refused)) == (
        "too_many_pixels",
        "100,000 x 100,000 pixels are more than the limit of 50,000,000",
    )


def test_limits_above_those_of_pillow_hold_for_tiff(tmp_path: Path) -> None:
    data = encode(Image.new("1", (12_000, 9_000)), "TIFF", compression="group4")
    assert refusal(data).reason == "too_many_pixels"
    assert open_picture(data, PictureLimits(200_000_000)).size == (12_000, 9_000)


def test_picture_error_goes_to_another_process_with_its_reason() -> None:
    error = pickle.loads(pickle.dumps(PictureError("damaged", "cut short")))  # noqa: S301
    assert (error.reason, str(error)) == ("damaged", "cut short")
