"""Reads the text in pictures and notes it in the text index (the extra `ocr`)."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, Protocol

import numpy as np
from PIL import Image

from hasse.index.catalog import documents
from hasse.index.locking import locked
from hasse.index.store import Index
from hasse.index.types import ImageRow
from hasse.models.errors import HasseError, pip_install
from hasse.models.images.decoding import open_picture
from hasse.models.images.limits import PictureError, PictureLimits

SOURCE: Final = "text in the picture"
_BLOCK = 32  # pictures whose text becomes durable together
_READ = 1600  # pixels of the longer side of a picture that is read
_GLANCED = 480  # and of one in which text is looked for first
_SURE = 0.6  # least score of a line that is kept


class TextReader(Protocol):
    """Reads the text in pictures."""

    def read(self, picture: Image.Image) -> list[str]:
        """Return the lines of text in an upright RGB picture, in their order."""


class Recogniser:
    """RapidOCR, whose package carries its models: nothing is downloaded.

    A small version of a picture is looked at first: without text in it, it is not read. Lines that
    are rotated are turned by the recogniser.

    Raises:
        HasseError: the package is missing.
    """

    def __init__(self) -> None:
        os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # ONNX Runtime reports its use otherwise
        try:
            from rapidocr import RapidOCR
        except ModuleNotFoundError as error:
            raise HasseError(f"reading text in pictures needs {pip_install('ocr')}") from error
        self._engine = RapidOCR(
            params={
                "Global.log_level": "error",
                "Det.limit_type": "max",  # a small picture is not enlarged
                "Det.limit_side_len": _READ,
            }
        )

    def read(self, picture: Image.Image) -> list[str]:
        """Return the lines of text that are sure enough."""
        if self._find(_reduced(picture, _GLANCED), read=False).boxes is None:
            return []
        found = self._find(_reduced(picture, _READ), read=True)
        if found.txts is None:
            return []
        pairs = zip(found.txts, found.scores, strict=True)
        return [line.strip() for line, score in pairs if score >= _SURE and line.strip()]

    def _find(self, picture: Image.Image, *, read: bool) -> Any:
        pixels = np.asarray(picture)[:, :, ::-1]  # it takes BGR
        # It remembers what it was told last: say all.
        return self._engine(pixels, use_det=True, use_cls=read, use_rec=read)


def _reduced(picture: Image.Image, longest: int) -> Image.Image:
    reduced = picture.copy()
    reduced.thumbnail((longest, longest), Image.Resampling.LANCZOS, reducing_gap=2.0)
    return reduced


def read_pictures(
    index: Index,
    reader: TextReader,
    limits: PictureLimits,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[int, int]:
    """Read all pictures that were not read yet; return how many, and how many of them have text.

    A call that was stopped goes on where it was. Others may change the index meanwhile: pictures
    that are added are read too. One process at a time reads.

    Raises:
        IndexLockedError: another process reads already.
    """
    tried: set[int] = set()
    read = with_text = 0
    lock = locked(index.folder, index.catalog, "reading.lock", 0.0, "reading the pictures of")
    with lock, ThreadPoolExecutor(1, thread_name_prefix="hasse-decode") as pool:
        while left := [row for row in _unread(index) if row.id not in tried]:
            tried |= {row.id for row in left}
            for start in range(0, len(left), _BLOCK):
                block = left[start : start + _BLOCK]
                texts: dict[int, list[str]] = {}
                try:
                    each = pool.map(partial(_decoded, index, limits), block)
                    for at, (row, picture) in enumerate(zip(block, each, strict=True)):
                        if picture is not None:
                            texts[row.id] = [" ".join(reader.read(picture))]
                        report(start + at + 1, len(left))
                finally:  # what was read is kept when it is stopped
                    _note(index, block, texts)
                read += len(texts)
                with_text += sum(bool(text) for (text,) in texts.values())
    return read, with_text


def _unread(index: Index) -> list[ImageRow]:
    with index.catalog.reading() as connection:
        known = documents.images_with(connection, SOURCE)
    return [row for row in index.catalog.all_rows()[0] if row.id not in known]


def _decoded(index: Index, limits: PictureLimits, image: ImageRow) -> Image.Image | None:
    try:
        return open_picture(index.path_of(image), limits, _READ * 3 // 4)
    except (PictureError, OSError):
        return None


def _note(index: Index, seen: Sequence[ImageRow], texts: dict[int, list[str]]) -> None:
    """Note the text of images that still are what was read; "" notes that there is none."""
    if not texts:
        return
    with index.writing() as writer:
        now = index.catalog.images(list(texts))
        same = {row.id for row in seen if row.id in now and now[row.id].sha256 == row.sha256}
        writer.replace_texts(SOURCE, {id_: text for id_, text in texts.items() if id_ in same})
    index.announce()
