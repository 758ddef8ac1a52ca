"""Decodes pictures in separate processes, which can be killed.

Some of Pillow's readers hold Python's interpreter lock, a damaged file may crash a library, and a
small file may take hours. The kernel limits the processor time and memory of such a process, which
receives an open file. It imports Pillow and the packages of formats, but not torch.
"""

from __future__ import annotations

import atexit
import json
import math
import mmap
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from threading import Lock
from typing import IO, Any

from PIL import AvifImagePlugin, Image, ImageFile

from hasse.models.images import codecs
from hasse.models.images.dates import date_in
from hasse.models.images.limits import PictureError, PictureLimits
from hasse.models.images.metadata import metadata_in
from hasse.models.lifeline import end_with_parent

_PROGRAM = "from hasse.models.images.decoder import serve; serve()"
_LENGTH = struct.Struct("<I")
_ENVIRONMENT = {
    "PYTHONWARNINGS": "",  # in this process, warnings may be errors
    # Each thread would reserve address space, which is limited.
    **{"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"},
    # The next picture uses the memory of this one: allocating it again takes a tenth more time.
    **{"MALLOC_MMAP_THRESHOLD_": "33554432", "MALLOC_TRIM_THRESHOLD_": "67108864"},
}
_CACHED_BYTES = 16_000_000  # of pixels, whose memory the next picture uses again
_IDLE_PROCESSES = 16  # that wait for the next pictures
_NICENESS = 5  # answers to other requests come first
_PATIENCE = 20.0  # seconds to wait for each second of processor time, on a busy machine


class DecodingCancelled(Exception):
    """The caller no longer wants the picture."""


class Cancellation:
    """Stops the decoding of a picture from another thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._decoder: Decoder | None = None
        self._cancelled = False

    def cancel(self) -> None:
        """Kill the process that decodes the picture, or prevent its start."""
        with self._lock:
            self._cancelled = True
            if self._decoder is not None:
                self._decoder.kill()

    @contextmanager
    def killing(self, decoder: Decoder) -> Iterator[None]:
        """Let `cancel` kill this process until the block ends.

        Raises:
            DecodingCancelled: another thread called `cancel` before or during the block.
        """
        with self._lock:
            if self._cancelled:
                raise DecodingCancelled
            self._decoder = decoder
        try:
            yield
        finally:
            with self._lock:
                self._decoder = None
                if self._cancelled:
                    raise DecodingCancelled


class Decoder:
    """A process that decodes one picture at a time, and writes its pixels into shared memory."""

    def __init__(self) -> None:
        self._link, other_end = socket.socketpair()
        self._pixels = memory_file()
        paths = os.pathsep.join(path for path in sys.path if path)
        pipe, held = os.pipe()
        self._lifeline = os.fdopen(held, "wb", 0)  # the process ends when this closes
        descriptors = [other_end.fileno(), self._pixels.fileno(), pipe]
        with other_end, os.fdopen(pipe):
            self._process = subprocess.Popen(  # noqa: S603
                [sys.executable, "-P", "-c", _PROGRAM, *map(str, descriptors)],
                pass_fds=descriptors,
                env={**os.environ, **_ENVIRONMENT, "PYTHONPATH": paths},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,  # libtiff writes many lines, which name no file
                start_new_session=True,  # Ctrl-C is for the commands that decode
            )

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def ask(self, request: dict[str, Any], file: IO[bytes], limits: PictureLimits) -> Reply:
        """Let the process read a file, and return its reply.

        Raises:
            PictureError: the picture took too long, or crashed the process. The process is dead.
        """
        content = json.dumps(request | {"limits": asdict(limits)}).encode()
        self._link.settimeout(_PATIENCE * max(1.0, limits.seconds))
        try:
            socket.send_fds(self._link, [_LENGTH.pack(len(content)) + content], [file.fileno()])
            (length,) = _LENGTH.unpack(self._receive(_LENGTH.size))
            head = json.loads(self._receive(length))
            return head, self._image(*head["pixels"]) if "pixels" in head else None
        except TimeoutError:
            self.kill()
            ended_by = int(signal.SIGXCPU)
        except (ConnectionError, EOFError):
            ended_by = -self._process.wait()
        if ended_by == signal.SIGXCPU:
            raise PictureError(
                "damaged",
                f"it takes more than {limits.seconds:g} s of processor time to decode: convert it, "
                f"or raise HASSE_DECODE_SECONDS",
            )
        raise PictureError("damaged", f"damaged (the process that decodes ended by {ended_by})")

    def kill(self) -> None:
        """End the process at once."""
        self._process.kill()

    def close(self) -> None:
        """End the process, and wait until it has ended."""
        self._link.close()
        self._pixels.close()
        self._lifeline.close()
        self._process.kill()
        self._process.wait()

    def _image(self, width: int, height: int) -> Image.Image:
        size, file = 3 * width * height, self._pixels.fileno()
        with mmap.mmap(file, size, prot=mmap.PROT_READ) as pixels, memoryview(pixels) as view:
            image = Image.frombytes("RGB", (width, height), view)
        if size > _CACHED_BYTES:
            os.ftruncate(file, 0)
        return image

    def _receive(self, size: int) -> bytearray:
        content = bytearray(size)
        view = memoryview(content)
        while view:
            count = self._link.recv_into(view)
            if not count:
                raise EOFError
            view = view[count:]
        return content


Reply = tuple[dict[str, Any], Image.Image | None]


class Decoders:
    """Processes that decode pictures, started on demand."""

    def __init__(self) -> None:
        self._idle: list[Decoder] = []

    def ask(
        self,
        request: dict[str, Any],
        file: IO[bytes],
        limits: PictureLimits,
        cancellation: Cancellation | None = None,
    ) -> Reply:
        """Let an idle process read a file, or a new one, and return its reply.

        Raises:
            PictureError: the picture is refused.
            OSError: the system is out of file descriptors, processes or memory.
            DecodingCancelled: `cancellation` was cancelled.
        """
        decoder = self._take()
        try:
            with (cancellation or Cancellation()).killing(decoder):
                reply = decoder.ask(request, file, limits)
        except BaseException:
            decoder.close()
            raise
        if len(self._idle) < _IDLE_PROCESSES:
            self._idle.append(decoder)
        else:
            decoder.close()
        head = reply[0]
        if "errno" in head:
            raise OSError(head["errno"], os.strerror(head["errno"]))
        if "reason" in head:
            raise PictureError(head["reason"], head["message"])
        return reply

    def close(self) -> None:
        """End the idle processes."""
        while self._idle:
            self._idle.pop().close()

    def forget(self) -> None:
        """Forget the processes after a fork: they belong to the parent process."""
        self._idle = []

    def _take(self) -> Decoder:
        while self._idle:
            with suppress(IndexError):  # another thread took the last one
                if (decoder := self._idle.pop()).alive:
                    return decoder
                decoder.close()
        return Decoder()


DECODERS = Decoders()
atexit.register(DECODERS.close)
os.register_at_fork(after_in_child=DECODERS.forget)


def memory_file() -> IO[bytes]:
    """Return a file in memory that can be sent to other processes."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("picture"), "w+b")
    return tempfile.TemporaryFile()  # macOS


def serve() -> None:
    """Decode pictures from files received over a socket, until it is closed."""
    end_with_parent(int(sys.argv[3]))
    os.nice(_NICENESS)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    AvifImagePlugin.DEFAULT_MAX_THREADS = 1  # several pictures are decoded at a time
    link = socket.socket(fileno=int(sys.argv[1]))
    with os.fdopen(int(sys.argv[2]), "wb", buffering=0) as pixels:
        while True:
            start, files, *_ = socket.recv_fds(link, _LENGTH.size, 1)
            if not start:
                return
            (length,) = _LENGTH.unpack(start)
            request = json.loads(link.recv(length, socket.MSG_WAITALL))
            with os.fdopen(files[0], "rb") as file:
                head, image = _reply(request, file)
            if image is not None:
                pixels.seek(0)
                ImageFile._save(
                    image, pixels, [ImageFile._Tile("raw", (0, 0, *image.size), 0, "RGB")]
                )
            content = json.dumps(head).encode()
            link.sendall(_LENGTH.pack(len(content)) + content)


def _reply(request: dict[str, Any], file: IO[bytes]) -> tuple[dict[str, Any], Image.Image | None]:
    limits = PictureLimits(**request["limits"])
    _set_limits(limits)
    try:
        if request["job"] == "pixels":
            decoded = codecs.decode(file, limits, request["at_least"])
            size, name = decoded.size, decoded.format.name
            return {"size": size, "format": name, "pixels": decoded.image.size}, decoded.image
        result: Any
        if request["job"] == "date":
            result = date_in(file)
        elif request["job"] == "metadata":
            result = asdict(metadata_in(file))
        else:
            result = codecs.size_of(file, limits)
        return {request["job"]: result}, None
    except PictureError as error:
        return {"reason": error.reason, "message": str(error)}, None
    except MemoryError:
        return {"reason": "too_many_pixels", "message": "it takes too much memory to decode"}, None
    except OSError as error:
        return {"errno": error.errno}, None
    except Exception as error:  # readers may raise any error on a damaged file
        return {"reason": "damaged", "message": f"damaged ({type(error).__name__})"}, None


def _set_limits(limits: PictureLimits) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = math.ceil(used.ru_utime + used.ru_stime + limits.seconds)
    for kind, limit in ((resource.RLIMIT_CPU, seconds), (resource.RLIMIT_AS, limits.memory)):
        _, hard = resource.getrlimit(kind)
        with suppress(ValueError, OSError):  # macOS has no limit of memory
            resource.setrlimit(kind, (limit if hard < 0 else min(limit, hard), hard))
