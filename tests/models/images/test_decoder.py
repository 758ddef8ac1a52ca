"""Pictures are decoded in processes with limits, which are killed and started again."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from hasse.models.images.decoder import Cancellation, Decoder, Decoders, DecodingCancelled
from hasse.models.images.decoding import decode, open_picture
from hasse.models.images.limits import PictureError, PictureLimits
from tests.models.images.pictures import encode, noise


def endless() -> bytes:
    """Return a JPEG whose header takes minutes of processor time."""
    data = encode(noise(), "JPEG")
    return data[:2] + b"\xff\xe1\0\x09Exif\0\0a" * 2_000_000 + data[2:]


def asked(decoders: Decoders, folder: Path, content: bytes, limits: PictureLimits) -> bytes:
    (folder / "a").write_bytes(content)
    with (folder / "a").open("rb") as file:
        _, image = decoders.ask({"job": "pixels", "at_least": None}, file, limits)
    assert image is not None
    return image.tobytes()


def test_decoder_beyond_its_processor_time_is_killed_and_another_goes_on(tmp_path: Path) -> None:
    decoders = Decoders()
    with pytest.raises(PictureError, match=r"more than 0\.1 s of processor time") as caught:
        asked(decoders, tmp_path, endless(), PictureLimits(seconds=0.1))
    assert caught.value.reason == "damaged"
    pixels = asked(decoders, tmp_path, encode(noise(), "PNG"), PictureLimits())
    assert pixels == noise().tobytes()
    decoders.close()


def test_decoder_that_crashes_refuses_its_picture(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(endless())
    decoder = Decoder()
    with (tmp_path / "a").open("rb") as file:
        timer = threading.Timer(0.2, os.kill, (decoder.pid, signal.SIGSEGV))
        timer.start()
        with pytest.raises(PictureError, match="ended by 11"):
            decoder.ask({"job": "pixels", "at_least": None}, file, PictureLimits())
        timer.join()
    decoder.close()


def test_decode_that_is_cancelled_ends_and_the_next_picture_is_read() -> None:
    cancellation = Cancellation()
    content = endless()
    timer = threading.Timer(0.2, cancellation.cancel)
    timer.start()
    with pytest.raises(DecodingCancelled):
        decode(content, cancellation=cancellation)
    timer.join()
    with pytest.raises(DecodingCancelled):  # it stays cancelled
        decode(encode(noise(), "PNG"), cancellation=cancellation)
    assert open_picture(encode(noise(), "PNG")).size == (48, 32)


def test_decoder_that_died_while_idle_is_replaced(tmp_path: Path) -> None:
    decoders = Decoders()
    for _ in range(2):
        pixels = asked(decoders, tmp_path, encode(noise(), "PNG"), PictureLimits())
        assert pixels == noise().tobytes()
        (idle,) = decoders._idle
        os.kill(idle.pid, signal.SIGKILL)
        os.waitid(os.P_PID, idle.pid, os.WEXITED | os.WNOWAIT)
    decoders.close()


def test_decoder_has_the_memory_limit_of_its_picture(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(encode(noise(), "PNG"))
    decoder = Decoder()
    for limits in (PictureLimits(10_000), PictureLimits(60_000_000)):
        with (tmp_path / "a").open("rb") as file:
            decoder.ask({"job": "size"}, file, limits)
        assert resource.prlimit(decoder.pid, resource.RLIMIT_AS)[0] == limits.memory
    decoder.close()


def test_decoder_outlives_a_reader_that_raises_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "from hasse.models.images import codecs\n"
        "def fail(*_): raise AssertionError\n"
        "codecs._draft = fail\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    decoders = Decoders()
    for _ in range(2):
        with pytest.raises(PictureError, match="AssertionError") as caught:
            asked(decoders, tmp_path, encode(noise(), "JPEG"), PictureLimits())
        assert caught.value.reason == "damaged"
    assert asked(decoders, tmp_path, encode(noise(), "PNG"), PictureLimits())
    (idle,) = decoders._idle
    assert idle.alive
    decoders.close()


def test_decoder_hands_over_large_pictures_whole() -> None:
    for picture in (noise(48, 32), noise(3011, 2013), noise(16, 16)):
        read = open_picture(encode(picture, "BMP"))
        assert np.array_equal(np.asarray(read), np.asarray(picture))


def test_decoder_starts_in_a_folder_with_modules_of_the_same_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PIL", "hasse", "socket", "numpy"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(1)")
    monkeypatch.chdir(tmp_path)
    decoders = Decoders()
    assert asked(decoders, tmp_path, encode(noise(), "PNG"), PictureLimits())
    decoders.close()


def test_decoder_ends_with_the_process_that_started_it() -> None:
    program = (
        "import os\n"
        "from hasse.models.images.decoder import DECODERS, Decoder\n"
        "print(Decoder().pid, flush=True)\n"
        "os._exit(0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    started = Path(f"/proc/{int(done.stdout)}")
    deadline = time.monotonic() + 60
    while started.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not started.exists()


def test_decoder_imports_no_torch() -> None:
    program = "import sys, hasse.models.images.decoder; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout == b"False\n"


def test_decoder_keeps_the_lines_of_libtiff_to_itself(capfd: pytest.CaptureFixture[str]) -> None:
    data = bytearray(encode(noise(), "TIFF", compression="tiff_lzw"))
    data[8:40] = bytes(32)  # of the pixels
    with pytest.raises(PictureError):
        open_picture(bytes(data))
    assert capfd.readouterr().err == ""
