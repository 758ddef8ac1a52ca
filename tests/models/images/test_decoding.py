"""Pictures of strangers: a result or a clear refusal."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from hasse.models.images import codecs
from hasse.models.images.decoding import open_picture, picture_size, picture_stamp
from hasse.models.images.limits import PictureError, PictureLimits
from tests.models.images.pictures import chunk, close, encode, flat, noise, refusal


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP", "GIF", "AVIF", "TIFF", "BMP", "JPEG2000"])
def test_each_allowed_format_comes_out_as_rgb_from_bytes_and_from_a_file(
    form: str, tmp_path: Path
) -> None:
    data = encode(flat((200, 30, 40)), form)
    (tmp_path / "x").write_bytes(data)
    for source in (data, tmp_path / "x"):
        assert close(open_picture(source), (200, 30, 40))
        assert open_picture(source).size == picture_size(source) == (8, 6)


@pytest.mark.parametrize("form", ["PPM", "ICO", "TGA", "PCX", "DDS"])
def test_format_outside_the_list_is_not_a_picture(form: str) -> None:
    assert refusal(encode(noise(), form)).reason == "not_a_picture"


@pytest.mark.parametrize("start", [b"RIFF\x24\0\0\0WAVEfmt ", b"\xff\xd8 neither", b"GIF90a"])
def test_file_that_only_begins_like_a_picture_is_refused(start: bytes) -> None:
    assert refusal(start + bytes(100)).reason == "not_a_picture"


def test_text_called_jpg_an_empty_file_and_a_folder_are_not_pictures(tmp_path: Path) -> None:
    (tmp_path / "text.jpg").write_text("this is not a picture")
    (tmp_path / "empty.jpg").touch()
    for name in ("text.jpg", "empty.jpg", ".", "nowhere.jpg"):
        assert refusal(tmp_path / name).reason == "not_a_picture"
    assert str(refusal(tmp_path / "nowhere.jpg")) == "file not found"
    assert str(refusal(b"")) == "the file is empty"


def test_file_without_permission_to_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*_: object) -> None:
        raise PermissionError

    (tmp_path / "a.png").touch()
    # A superuser may read everything.
    monkeypatch.setattr("hasse.models.images.decoding.open_regular", forbidden)
    refused = refusal(tmp_path / "a.png")
    assert (refused.reason, str(refused)) == ("not_a_picture", "no permission to read the file")


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ESTALE])
def test_open_picture_raises_errors_of_the_system_as_they_are(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    (tmp_path / "a.png").write_bytes(encode(noise(), "PNG"))
    monkeypatch.setattr("hasse.models.images.decoding.open_regular", refused)
    for read in (open_picture, picture_size):
        with pytest.raises(OSError, match=re.escape(os.strerror(number))):
            read(tmp_path / "a.png")


def test_decode_file_with_a_sector_that_cannot_be_read_is_damaged() -> None:
    class Broken(io.BytesIO):
        def read(self, _: int | None = -1) -> bytes:
            raise OSError(errno.EIO, "Input/output error")

    with pytest.raises(PictureError) as caught:
        codecs.decode(Broken(), PictureLimits())
    assert caught.value.reason == "damaged"


def test_pipe_is_refused_without_waiting(tmp_path: Path) -> None:
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


def test_transparent_palette_entry_becomes_white() -> None:
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
def test_transparent_colour_of_a_png_becomes_white_at_every_depth(
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
def test_animation_gives_its_first_frame(form: str) -> None:
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
        ("TIFF", {}),
        ("TIFF", {"compression": "tiff_lzw"}),
        ("AVIF", {"quality": 100, "subsampling": "4:4:4"}),
    ):
        data = encode(stored, form, exif=exif, **options)
        np.testing.assert_allclose(np.asarray(open_picture(data)), np.asarray(upright), atol=3)
        assert picture_size(data) == (16, 8)


def test_exif_behind_the_pixels_of_a_png_is_applied() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    data = encode(noise(16, 8), "PNG")
    end = data.rindex(b"IEND") - 4
    data = data[:end] + chunk(b"eXIf", exif.tobytes().removeprefix(b"Exif\0\0")) + data[end:]
    assert open_picture(data).size == picture_size(data) == (8, 16)


@pytest.mark.filterwarnings("ignore:.*:UserWarning:PIL")
def test_broken_exif_does_not_spoil_the_picture() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    data = encode(flat((9, 9, 9)), "JPEG", exif=exif)
    at = data.index(b"Exif\0\0")
    assert close(open_picture(data[: at + 14] + b"\xff" * 4 + data[at + 18 :]), (9, 9, 9))


def test_orientation_that_is_no_number_is_ignored() -> None:
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
    ("form", "cut"), [(f, c) for f in ("JPEG", "PNG", "WEBP", "GIF", "AVIF") for c in (0.2, 0.6)]
)
def test_picture_cut_short_is_refused_and_not_shown_grey(form: str, cut: float) -> None:
    data = encode(noise(200, 150), form)
    for options in ({}, {"at_least": 16}):
        assert refusal(data[: int(len(data) * cut)], **options).reason == "damaged"


@pytest.mark.parametrize("form", ["JPEG", "PNG", "GIF", "BMP"])
def test_picture_that_lacks_few_rows_is_read(form: str) -> None:
    how = {"interlace": 0} if form == "GIF" else {}
    data = encode(noise(200, 150), form, **how)
    whole = np.asarray(open_picture(data))
    rows = slice(40, 150) if form == "BMP" else slice(0, 110)  # a BMP begins at its bottom
    for cut in (len(data) - 1, len(data) - 2, len(data) - 40, int(len(data) * 0.9)):
        read = np.asarray(open_picture(data[:cut]))
        np.testing.assert_array_equal(read[rows], whole[rows])


def test_progressive_jpeg_cut_short_is_read_once_all_rows_have_come() -> None:
    picture = noise(20, 15).resize((200, 150))
    data = encode(picture, "JPEG", progressive=True)
    read = np.asarray(open_picture(data[: len(data) * 2 // 3])).astype(int)
    assert np.abs(read - np.asarray(picture)).mean() < 12
    assert refusal(data[: data.index(b"\xff\xda") + 40]).reason == "damaged"


def test_interlaced_picture_cut_short_is_refused() -> None:
    data = encode(noise(200, 150), "GIF", interlace=1)
    assert refusal(data[: int(len(data) * 0.9)]).reason == "damaged"


SEEDS = [
    encode(noise(), "JPEG"), encode(noise(), "JPEG", progressive=True),
    encode(noise().convert("CMYK"), "JPEG"), encode(noise(), "PNG"),
    encode(noise().convert("P"), "PNG", transparency=3), encode(noise(), "WEBP"),
    encode(noise().convert("RGBA"), "WEBP", lossless=True), encode(noise(), "GIF"),
    encode(noise(), "AVIF"), encode(noise(), "TIFF"), encode(noise(), "BMP"),
    encode(noise(), "TIFF", compression="tiff_lzw"), encode(noise(), "JPEG2000"),
    encode(noise(), "GIF", save_all=True, append_images=[flat((1, 2, 3), size=(48, 32))]),
]  # fmt: skip  # fmt: skip


@given(data=st.data())
def test_damage_of_any_kind_is_a_picture_or_a_picture_error(data: st.DataObject) -> None:
    content = bytearray(data.draw(st.sampled_from(SEEDS)))
    positions = st.one_of(st.integers(0, 60), st.integers(0, len(content) - 1))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(positions) % len(content)] = data.draw(st.integers(0, 255))
    content = content[: data.draw(st.integers(0, len(content)))]
    for read in (open_picture, picture_size):
        with contextlib.suppress(PictureError):
            read(bytes(content), PictureLimits(4_000_000))
