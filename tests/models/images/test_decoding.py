"""Pictures of strangers: a result or a clear refusal, and never more memory than the limit."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import struct
import subprocess
import sys
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from models.images import decoding
from models.images.decoding import (
    MAX_METADATA,
    MAX_PROFILES,
    MAX_SCANS,
    PictureError,
    open_picture,
    picture_size,
    picture_stamp,
)

CLEAR = Path("/proc/self/clear_refs")  # starts a process's peak of memory again


def encode(picture: Image.Image, form: str, **options: Any) -> bytes:
    file = io.BytesIO()
    picture.save(file, form, **options)
    return file.getvalue()


def noise(width: int = 48, height: int = 32) -> Image.Image:
    pixels = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def flat(colour: tuple[int, ...], mode: str = "RGB", size: tuple[int, int] = (8, 6)) -> Image.Image:
    return Image.new(mode, size, colour)


def chunk(name: bytes, body: bytes) -> bytes:
    """Return a part of a PNG."""
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def png_header(width: int, height: int) -> bytes:
    """Return a PNG of that size whose pixels are missing."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", b"")


def refusal(source: bytes | Path, **options: Any) -> PictureError:
    with pytest.raises(PictureError) as caught:
        open_picture(source, **options)
    return caught.value


def close(picture: Image.Image, colour: tuple[int, int, int], tolerance: int = 6) -> bool:
    gap = np.abs(np.asarray(picture).astype(int) - np.array(colour))
    return picture.mode == "RGB" and bool((gap <= tolerance).all())


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP", "GIF"])
def test_each_allowed_format_comes_out_as_rgb_from_bytes_and_from_a_file(
    form: str, tmp_path: Path
) -> None:
    data = encode(flat((200, 30, 40)), form)
    (tmp_path / "x").write_bytes(data)
    for source in (data, tmp_path / "x"):
        assert close(open_picture(source), (200, 30, 40))
        assert open_picture(source).size == picture_size(source) == (8, 6)


@pytest.mark.parametrize("form", ["BMP", "TIFF", "PPM", "ICO", "TGA", "JPEG2000"])
def test_a_format_outside_the_list_is_not_a_picture(form: str) -> None:
    assert refusal(encode(noise(), form)).reason == "not_a_picture"


@pytest.mark.parametrize("start", [b"RIFF\x24\0\0\0WAVEfmt ", b"\xff\xd8 neither", b"GIF90a"])
def test_a_file_that_only_begins_like_a_picture_is_refused(start: bytes) -> None:
    assert refusal(start + bytes(100)).reason == "not_a_picture"


def test_text_called_jpg_an_empty_file_and_a_folder_are_not_pictures(tmp_path: Path) -> None:
    (tmp_path / "text.jpg").write_text("this is not a picture")
    (tmp_path / "empty.jpg").touch()
    for name in ("text.jpg", "empty.jpg", ".", "nowhere.jpg"):
        assert refusal(tmp_path / name).reason == "not_a_picture"
    assert str(refusal(tmp_path / "nowhere.jpg")) == "file not found"
    assert str(refusal(b"")) == "the file is empty"


def test_a_file_without_permission_to_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*_: object) -> None:
        raise PermissionError

    (tmp_path / "a.png").touch()
    monkeypatch.setattr(Path, "open", forbidden)  # a superuser may read everything
    refused = refusal(tmp_path / "a.png")
    assert (refused.reason, str(refused)) == ("not_a_picture", "no permission to read the file")


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ESTALE])
def test_open_picture_raises_errors_of_the_system_as_they_are(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    (tmp_path / "a.png").write_bytes(encode(noise(), "PNG"))
    monkeypatch.setattr(Path, "open", refused)
    for read in (open_picture, picture_size):
        with pytest.raises(OSError, match=re.escape(os.strerror(number))):
            read(tmp_path / "a.png")


def test_a_sector_that_cannot_be_read_damages_its_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(io.BytesIO):
        def read(self, _: int | None = -1) -> bytes:
            raise OSError(errno.EIO, "Input/output error")

    (tmp_path / "a.png").touch()
    monkeypatch.setattr(Path, "open", lambda *_: Broken())
    assert refusal(tmp_path / "a.png").reason == "damaged"


def test_a_pipe_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jpg")
    assert refusal(tmp_path / "pipe.jpg").reason == "not_a_picture"


def test_cmyk_comes_out_in_the_right_colours() -> None:
    data = encode(flat((200, 30, 40)).convert("CMYK"), "JPEG")
    assert close(open_picture(data), (200, 30, 40))


def test_sixteen_bits_of_grey_keep_their_range() -> None:
    ramp = np.tile(np.linspace(0, 65535, 64).astype(np.uint16), (4, 1))
    out = np.asarray(open_picture(encode(Image.fromarray(ramp), "PNG")))
    np.testing.assert_array_equal(out[..., 0], ramp >> 8)


def test_transparency_becomes_white() -> None:
    clear_red = flat((255, 0, 0, 128), "RGBA")
    assert close(open_picture(encode(clear_red, "PNG")), (255, 127, 127))
    assert close(open_picture(encode(clear_red, "WEBP", lossless=True)), (255, 127, 127))
    assert close(open_picture(encode(flat((0, 0), "LA"), "PNG")), (255, 255, 255))


def test_a_transparent_palette_entry_becomes_white() -> None:
    picture = Image.new("P", (8, 6), 1)
    picture.putpalette([0, 0, 255, 0, 255, 0])
    for form in ("PNG", "GIF"):
        assert close(open_picture(encode(picture, form)), (0, 255, 0))
        assert close(open_picture(encode(picture, form, transparency=1)), (255, 255, 255))
    per_entry = encode(picture, "PNG", transparency=bytes([255, 0]))
    assert close(open_picture(per_entry), (255, 255, 255))


@pytest.mark.parametrize(
    ("depth", "row", "clear", "seen"),
    [
        (1, b"\x40", (0,), (255, 255)),
        (1, b"\x40", (1,), (0, 255)),
        (2, b"\x1b", (1,), (0, 255, 170, 255)),
        (2, b"\x1b", (2,), (0, 85, 255, 255)),
        (4, b"\x05\xaf", (5,), (0, 255, 170, 255)),
        (4, b"\x05\xaf", (10,), (0, 85, 255, 255)),
        (8, b"\x00\x05\x55", (5,), (0, 255, 85)),
        (16, b"\x00\x05\x55\x05\x55\x06", (0x5505,), (0, 255, 85)),
        (8, b"\x01\x01\x01\x02\x02\x02", (2, 2, 2), (1, 255)),
        (16, b"\x01\x09\x01\x08\x01\x07" + b"\x02\x09" * 3, (0x109, 0x108, 0x107), (255, 2)),
        (16, b"\x01\x09\x01\x08\x01\x07" + b"\x02\x09" * 3, (1, 1, 1), (1, 2)),
    ],
)
def test_the_transparent_colour_of_a_png_becomes_white_at_every_depth(
    depth: int, row: bytes, clear: tuple[int, ...], seen: tuple[int, ...]
) -> None:
    """A row of pixels, grey where `clear` is one number, of which the red that is seen is told."""
    header = struct.pack(">IIBBBBB", len(seen), 1, depth, 0 if len(clear) == 1 else 2, 0, 0, 0)
    parts = {
        b"IHDR": header,
        b"tRNS": struct.pack(f">{len(clear)}H", *clear),
        b"IDAT": zlib.compress(b"\0" + row),
        b"IEND": b"",
    }
    data = b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts.items())
    assert tuple(np.asarray(open_picture(data))[0, :, 0].tolist()) == seen


@pytest.mark.parametrize("form", ["GIF", "WEBP", "PNG"])
def test_an_animation_gives_its_first_frame(form: str) -> None:
    frames = [flat((0, 0, 255)), flat((255, 0, 0)), flat((0, 255, 0))]
    data = encode(frames[0], form, save_all=True, append_images=frames[1:])
    assert close(open_picture(data), (0, 0, 255), tolerance=12)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_undone(orientation: int) -> None:
    upright = Image.new("RGB", (16, 8), "white")
    upright.paste((255, 0, 0), (0, 0, 8, 4))  # red at the top left
    stored = {
        1: upright,
        2: upright.transpose(Image.Transpose.FLIP_LEFT_RIGHT),
        3: upright.transpose(Image.Transpose.ROTATE_180),
        4: upright.transpose(Image.Transpose.FLIP_TOP_BOTTOM),
        5: upright.transpose(Image.Transpose.TRANSPOSE),
        6: upright.transpose(Image.Transpose.ROTATE_90),
        7: upright.transpose(Image.Transpose.TRANSVERSE),
        8: upright.transpose(Image.Transpose.ROTATE_270),
    }[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    for form, options in (
        ("JPEG", {"quality": 100, "subsampling": 0}),
        ("PNG", {}),
        ("WEBP", {"lossless": True}),
    ):
        data = encode(stored, form, exif=exif, **options)
        np.testing.assert_allclose(np.asarray(open_picture(data)), np.asarray(upright), atol=3)
        assert picture_size(data) == (16, 8)


def test_exif_behind_the_pixels_of_a_png_is_applied_but_not_read_for_its_size() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    data = encode(noise(16, 8), "PNG")
    end = data.rindex(b"IEND") - 4
    data = data[:end] + chunk(b"eXIf", exif.tobytes().removeprefix(b"Exif\0\0")) + data[end:]
    assert open_picture(data).size == (8, 16)
    assert picture_size(data) == (16, 8)


@pytest.mark.filterwarnings("ignore:.*:UserWarning:PIL")
def test_broken_exif_does_not_spoil_the_picture() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    data = encode(flat((9, 9, 9)), "JPEG", exif=exif)
    at = data.index(b"Exif\0\0")
    assert close(open_picture(data[: at + 14] + b"\xff" * 4 + data[at + 18 :]), (9, 9, 9))


def test_an_orientation_that_is_no_number_is_ignored() -> None:
    # TIFF, little-endian: one entry, the orientation, as text of one letter.
    note = b"II*\0\x08\0\0\0\x01\0" + struct.pack("<HHI4s", 0x0112, 2, 2, b"6") + b"\0" * 4
    data = encode(noise(16, 8), "JPEG", exif=b"Exif\0\0" + note)
    assert open_picture(data).size == picture_size(data) == (16, 8)


def test_picture_stamp_depends_on_size_and_whole_seconds_of_change(tmp_path: Path) -> None:
    path, stamps = tmp_path / "a.png", []
    for content, time in ((b"one", 100.25), (b"two", 100.75), (b"two", 101.25), (b"three", 100.25)):
        path.write_bytes(content)
        os.utime(path, (time, time))
        stamps.append(picture_stamp(path))
    assert stamps[0] == stamps[1]
    assert len(set(stamps)) == 3
    assert all(0 < stamp < 2**63 for stamp in stamps)
    assert picture_stamp(tmp_path / "gone.png") == 0


def test_one_pixel_is_a_picture() -> None:
    picture = open_picture(encode(flat((1, 2, 3), size=(1, 1)), "PNG"))
    assert picture.size == (1, 1)


@pytest.mark.parametrize(
    ("form", "cut"), [(f, c) for f in ("JPEG", "PNG", "WEBP", "GIF") for c in (0.2, 0.6, 0.95)]
)
def test_a_picture_cut_short_is_refused_and_not_shown_grey(form: str, cut: float) -> None:
    data = encode(noise(200, 150), form)
    for options in ({}, {"at_least": 16}):
        assert refusal(data[: int(len(data) * cut)], **options).reason == "damaged"


def test_a_progressive_jpeg_cut_short_is_refused() -> None:
    data = encode(noise(200, 150), "JPEG", progressive=True)
    assert refusal(data[: len(data) // 2]).reason == "damaged"


def scanned(times: int) -> bytes:
    """Return a progressive JPEG of so many scans, most of which add nothing."""
    data = encode(Image.new("L", (16, 16), 128), "JPEG", progressive=True)
    last = data.rindex(b"\xff\xda")
    return data[:-2] + data[last:-2] * (times - data.count(b"\xff\xda")) + data[-2:]


def test_a_jpeg_that_draws_its_pixels_over_and_over_is_refused() -> None:
    assert open_picture(scanned(MAX_SCANS)).size == (16, 16)
    for options in ({}, {"at_least": 8}):
        refused = refusal(scanned(MAX_SCANS + 1), **options)
        assert (refused.reason, str(refused)) == ("damaged", "it has more than 100 scans")


def test_only_a_jpegs_own_scans_are_counted() -> None:
    many = b"\xff\xda" * 2 * MAX_SCANS
    data = encode(noise(), "JPEG", comment=many)
    assert many in data
    assert open_picture(data + many).size == (48, 32), "a film behind it, too"


@pytest.mark.parametrize("length", [0, 1, *range(4091, 4097), *range(65_531, 65_537), 200_000])
def test_scans_of_any_length_are_counted(length: int) -> None:
    scan = b"\xff\xda\x00\x02" + b"\x01\xff\x00\xff\xd0\xff\xff"[:length].ljust(length, b"\x01")
    decoding._check_jpeg(io.BytesIO(b"\xff\xd8" + scan * MAX_SCANS), b"\xd9")
    with pytest.raises(PictureError):
        decoding._check_jpeg(io.BytesIO(b"\xff\xd8" + scan * (MAX_SCANS + 1)), b"\xd9")


@pytest.mark.parametrize(
    ("form", "before", "note"),
    [
        ("JPEG", b"\xff\xda", b"\xff\xfe\0\2"),
        ("JPEG", b"\xff\xda", b"\xff\xe1\0\x09Exif\0\0a"),
        ("PNG", b"IDAT", b"\0\0\0\0abCd\x78\x06\xe9\xb3"),
        ("PNG", b"IEND", b"\0\0\0\0abCd\x78\x06\xe9\xb3"),
    ],
)
def test_a_picture_with_too_many_blocks_of_metadata_is_refused(
    form: str, before: bytes, note: bytes
) -> None:
    plain = encode(noise(), form)
    at = plain.index(before) - (4 if form == "PNG" else 0)
    allowed, many = (
        plain[:at] + note * count + plain[at:] for count in (MAX_METADATA - 9, MAX_METADATA + 1)
    )
    assert np.array_equal(np.asarray(open_picture(allowed)), np.asarray(open_picture(plain)))
    assert picture_size(allowed) == (48, 32)
    refused = refusal(many)
    assert (refused.reason, str(refused)) == (
        "damaged",
        "it has more than 10,000 blocks of metadata",
    )
    if before != b"IEND":  # the size is asked of the header alone
        with pytest.raises(PictureError, match="10,000 blocks"):
            picture_size(many)


@pytest.mark.parametrize("before", [b"IDAT", b"IEND"])
def test_a_png_of_many_colour_profiles_is_refused(before: bytes) -> None:
    profile = b"x\0\0" + zlib.compress(bytes(1000))
    chunk = struct.pack(">I", len(profile)) + b"iCCP" + profile
    chunk += struct.pack(">I", zlib.crc32(chunk[4:]))
    plain = encode(noise(), "PNG")
    at = plain.index(before) - 4
    allowed, many = (
        plain[:at] + chunk * count + plain[at:] for count in (MAX_PROFILES, MAX_PROFILES + 1)
    )
    assert np.array_equal(np.asarray(open_picture(allowed)), np.asarray(open_picture(plain)))
    refused = refusal(many)
    assert (refused.reason, str(refused)) == ("damaged", "it has more than 10 colour profiles")
    if before == b"IDAT":  # the size is asked of the header alone
        with pytest.raises(PictureError, match="10 colour profiles"):
            picture_size(many)


def opened(folder: Path) -> tuple[list[str], int, str]:
    """Open all pictures of a folder in a process of its own.

    Returns:
        what was said of those that were refused, by how many bytes its memory was larger at its
        peak, and what came by stderr.
    """
    program = (
        "import re, sys; from pathlib import Path\n"
        "from models.images.decoding import PictureError, open_picture\n"
        "def now(): return [int(x) for x in re.findall(\n"
        "    r'(?:VmHWM|VmRSS):\\s+(\\d+) kB', Path('/proc/self/status').read_text())]\n"
        f"Path('{CLEAR}').write_text('5')\n"
        "start = now()[1]\n"
        "for path in Path(sys.argv[1]).iterdir():\n"
        "    try: open_picture(path)\n"
        "    except PictureError as error: print(error.reason, error)\n"
        "print(now()[0] - start)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", program, str(folder)],
        capture_output=True,
        text=True,
        check=True,
    )
    *said, kilobytes = done.stdout.splitlines()
    return said, 1024 * int(kilobytes), done.stderr


@pytest.mark.skipif(not CLEAR.exists(), reason="the kernel does not tell a process its peak")
def test_a_bomb_is_refused_before_it_is_decoded(tmp_path: Path) -> None:
    # Decoded it is 432 MB and more.
    bomb = encode(Image.new("1", (12_000, 12_000)).convert("L"), "PNG")
    (tmp_path / "bomb.png").write_bytes(bomb)
    said, grown, errors = opened(tmp_path)
    assert said == ["too_many_pixels 12,000 x 12,000 pixels are more than the limit of 50,000,000"]
    assert grown < 20_000_000
    assert errors == ""  # Pillow's own warning does not leak


@pytest.mark.skipif(not CLEAR.exists(), reason="the kernel does not tell a process its peak")
def test_a_picture_takes_no_more_memory_than_documented(tmp_path: Path) -> None:
    turned = Image.Exif()
    turned[0x0112] = 6
    side = 2000
    picture = flat((200, 30, 40, 128), "RGBA", (side, side))
    for at, exif in enumerate((Image.Exif(), turned)):
        for form in ("WEBP", "PNG"):
            data = encode(
                picture, form, exif=exif, **({"lossless": True} if form == "WEBP" else {})
            )
            (tmp_path / f"{at}.{form}").write_bytes(data)
    said, grown, _ = opened(tmp_path)
    assert said == []
    assert grown < 18 * side**2


def test_the_limit_is_the_callers_and_holds_for_every_size() -> None:
    assert open_picture(encode(noise(48, 32), "PNG"), max_pixels=48 * 32).size == (48, 32)
    assert refusal(encode(noise(48, 32), "PNG"), max_pixels=48 * 32 - 1).reason == "too_many_pixels"
    for size in ((65_535, 65_535), (2**31 - 1, 2**31 - 1), (10_000, 9_000), (20_000, 20_000)):
        with warnings.catch_warnings(record=True) as leaked:
            warnings.simplefilter("always")
            assert refusal(png_header(*size)).reason == "too_many_pixels"
        assert leaked == []


def test_a_gif_whose_frame_is_far_larger_than_its_screen_is_refused() -> None:
    data = bytearray(encode(flat((1, 2, 3)), "GIF"))
    at = data.index(b",\0\0\0\0")
    data[at + 5 : at + 9] = struct.pack("<HH", 60_000, 60_000)
    assert refusal(bytes(data)).reason == "too_many_pixels"


def test_a_draft_is_smaller_but_never_below_what_was_asked() -> None:
    picture = noise(90, 70).resize((1800, 1400))
    data = encode(picture, "JPEG")
    assert open_picture(data, at_least=256).size == (450, 350)
    assert open_picture(data, at_least=700).size == (900, 700)
    assert open_picture(data, at_least=701).size == (1800, 1400)
    small = np.asarray(open_picture(data, at_least=256)).astype(float)
    whole = np.asarray(open_picture(data).resize((450, 350), Image.Resampling.BOX)).astype(float)
    assert np.abs(small - whole).mean() < 3


SEEDS = [
    encode(noise(), "JPEG"), encode(noise(), "JPEG", progressive=True),
    encode(noise().convert("CMYK"), "JPEG"), encode(noise(), "PNG"),
    encode(noise().convert("P"), "PNG", transparency=3), encode(noise(), "WEBP"),
    encode(noise().convert("RGBA"), "WEBP", lossless=True), encode(noise(), "GIF"),
    encode(noise(), "GIF", save_all=True, append_images=[flat((1, 2, 3), size=(48, 32))]),
]  # fmt: skip


@given(data=st.data())
def test_damage_of_any_kind_is_a_picture_or_a_picture_error(data: st.DataObject) -> None:
    content = bytearray(data.draw(st.sampled_from(SEEDS)))
    positions = st.one_of(st.integers(0, 60), st.integers(0, len(content) - 1))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(positions) % len(content)] = data.draw(st.integers(0, 255))
    content = content[: data.draw(st.integers(0, len(content)))]
    for read in (open_picture, picture_size):
        with contextlib.suppress(PictureError):
            read(bytes(content), 4_000_000)
