"""Reads the text in pictures and adds it to the text index (the extra `ocr`)."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, Protocol

import numpy as np
from PIL import Image

from hasse.index.catalog import documents
from hasse.index.locking import locked
from hasse.index.segments.change import Change
from hasse.index.store import Index
from hasse.index.types import ImageRow
from hasse.models.errors import HasseError, pip_install
from hasse.models.images.decoding import open_picture
from hasse.models.images.limits import PictureError, PictureLimits

SOURCE: Final = "text in the picture"
_BLOCK = 32  # pictures whose text becomes durable together
_READING_SIDE = 1600  # pixels of the longer side of a picture whose text is read
_DETECTION_SIDE = 480  # pixels of the longer side of a picture that is first checked for text
_LEAST_SCORE = 0.6  # of a line of text
_SURE = 0.9  # mean score of the characters of a page that is surely upright
_BROKEN = re.compile(r"[^\W\d_][-\u2010\u00ad]\s*$")  # a word that a line's end breaks


class TextReader(Protocol):
    """Reads the text in pictures."""

    def read(self, picture: Image.Image) -> list[str]:
        """Return the lines of text in an upright RGB picture, in order."""


class Recogniser:
    """RapidOCR. Its package contains its models, so nothing is downloaded.

    A small version of a picture is checked first. A picture without text there is not read. Whether
    it is upside down is decided for the whole picture: for one line, the guess is often wrong.

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
                "Det.limit_side_len": _READING_SIDE,
            }
        )

    def read(self, picture: Image.Image) -> list[str]:
        """Return the lines of text whose score is high enough, with broken words joined."""
        if self._run(_reduced(picture, _DETECTION_SIDE), read=False).boxes is None:
            return []
        page = _reduced(picture, _READING_SIDE)
        upright = self._lines(page)
        if _certainty(upright) >= _SURE:
            return joined_lines(_legible(upright))
        turned = self._lines(page.rotate(180))
        is_upright = _certainty(upright) >= _certainty(turned)
        return joined_lines(_legible(upright if is_upright else turned))

    def _lines(self, page: Image.Image) -> list[tuple[str, float]]:
        """Return the lines of a page as it is, each with its score."""
        output = self._run(page, read=True)
        texts = () if output.txts is None else output.txts
        return list(zip(texts, output.scores or (), strict=True))

    def _run(self, picture: Image.Image, *, read: bool) -> Any:
        pixels = np.asarray(picture)[:, :, ::-1]  # RapidOCR takes BGR
        # RapidOCR keeps options of the last call that are not passed again.
        return self._engine(pixels, use_det=True, use_cls=False, use_rec=read)


def _certainty(lines: Sequence[tuple[str, float]]) -> float:
    """Return the mean score of the characters of a page; 0 without any."""
    characters = sum(len(text) for text, _ in lines)
    return sum(len(text) * score for text, score in lines) / max(1, characters)


def _legible(lines: Iterable[tuple[str, float]]) -> list[str]:
    return [text.strip() for text, score in lines if score >= _LEAST_SCORE and text.strip()]


def joined_lines(lines: Iterable[str]) -> list[str]:
    """Return lines; the rest of a word that a hyphen breaks goes to the line where it begins."""
    joined: list[str] = []
    for line in lines:
        if joined and _BROKEN.search(joined[-1]) and line[:1].islower():
            rest, _, following = line.partition(" ")
            joined[-1] = joined[-1].rstrip()[:-1] + rest
            joined += [following] if following else []
        else:
            joined.append(line)
    return joined


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
    """Read all pictures that were not read yet; return their number, and how many have text.

    A repeated call continues a stopped one. Pictures that are added meanwhile are read too. One
    process at a time reads.

    Raises:
        IndexLockedError: another process reads already.
    """
    tried_ids: set[int] = set()
    read = with_text = 0
    lock = locked(index.folder, index.catalog, "reading.lock", 0.0, "reading the pictures of")
    with lock, ThreadPoolExecutor(1, thread_name_prefix="hasse-decode") as pool:
        while remaining := [row for row in _unread_images(index) if row.id not in tried_ids]:
            tried_ids |= {row.id for row in remaining}
            for start in range(0, len(remaining), _BLOCK):
                block = remaining[start : start + _BLOCK]
                texts: dict[int, list[str]] = {}
                try:
                    pictures = pool.map(partial(_decode, index, limits), block)
                    for at, (row, picture) in enumerate(zip(block, pictures, strict=True)):
                        if picture is not None:
                            texts[row.id] = [" ".join(reader.read(picture))]
                        report(start + at + 1, len(remaining))
                finally:  # store the texts so far if the command is stopped
                    _store_texts(index, block, texts)
                read += len(texts)
                with_text += sum(bool(text) for (text,) in texts.values())
    return read, with_text


def _unread_images(index: Index) -> list[ImageRow]:
    with index.catalog.reading() as connection:
        read_ids = documents.images_with(connection, SOURCE)
    return [row for row in index.catalog.all_rows()[0] if row.id not in read_ids]


def _decode(index: Index, limits: PictureLimits, image: ImageRow) -> Image.Image | None:
    try:
        return open_picture(index.path_of(image), limits, _READING_SIDE * 3 // 4)
    except (PictureError, OSError):
        return None


def _store_texts(index: Index, images: Sequence[ImageRow], texts: dict[int, list[str]]) -> None:
    """Store the texts of images whose pictures are unchanged; "" for a picture without text."""
    if not texts:
        return
    with index.writing() as writer:
        now = index.catalog.images(list(texts))
        unchanged = {row.id for row in images if row.id in now and now[row.id].sha256 == row.sha256}
        unchanged_texts = {id_: text for id_, text in texts.items() if id_ in unchanged}
        writer.change(Change(texts={SOURCE: unchanged_texts}))
    index.announce()
