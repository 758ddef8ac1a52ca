"""Encodes lines of text or pictures, and writes their embeddings to a file."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from hasse.models.checkpoints.checkpoint import Checkpoint
from hasse.models.datasets import Image
from hasse.models.datasets.source import read_text
from hasse.models.datasets.walk import walk
from hasse.models.embedding_model import Points
from hasse.models.errors import HasseError
from hasse.models.files import publish_file
from hasse.models.images.formats import PICTURE_SUFFIXES, is_picture
from hasse.service.writing.image_source import ImageSource

Encode = Callable[[Sequence[str]], Points]
# The other fields of each row's JSON line, and the embeddings (B, N).
Block = tuple[list[dict[str, Any]], Points]
STANDARD_INPUT = Path("-")
_TEXTS = 1024  # encoded together


class EmbedError(HasseError):
    """The inputs cannot be embedded together. The message names the inputs that can."""


def read_inputs(inputs: Sequence[Path]) -> list[str] | list[Path]:
    """Return the lines of a text file, or the named pictures and all pictures of named folders.

    Raises:
        EmbedError: there are texts and pictures, two files of text, or no picture in a folder.
        DatasetError: a file or a folder cannot be read.
    """
    if STANDARD_INPUT in inputs:
        _require_alone(inputs)
        return _lines(sys.stdin.buffer.read().decode("utf-8-sig", "replace"))
    if len(inputs) == 1 and not inputs[0].is_dir() and not _is_picture(inputs[0]):
        return _lines(read_text(inputs[0]))
    pictures: list[Path] = []
    for path in inputs:
        if path.is_dir():
            in_folder = [path / name for name in walk(path).pictures]
            if not in_folder:
                raise EmbedError(f"there is no picture in {path}: name another folder")
            pictures += in_folder
        elif _is_picture(path):
            pictures.append(path)
        else:
            _require_alone(inputs)
    return pictures


def text_blocks(model: Checkpoint, lines: Sequence[str], encode: Encode) -> Iterator[Block]:
    """Yield texts in order, with the embeddings that `encode` returns for them."""
    words = model.vocabulary
    for start in range(0, len(lines), _TEXTS):
        part = lines[start : start + _TEXTS]
        rows = [
            {"text": text, "known": words.knows(text), "unknown_words": words.unknown_words(text)}
            for text in part
        ]
        yield rows, encode(part)


def picture_blocks(
    model: Checkpoint,
    pictures: Sequence[Path],
    source: ImageSource,
) -> Iterator[Block]:
    """Yield pictures in order, with their points.

    A picture that cannot be read has a row of NaN, and `source.skipped` receives the reason.
    """
    images = [Image(at, path.name, path) for at, path in enumerate(pictures)]
    for batch in source.encode_batches(model.model, images):
        for image, error in batch.unusable:
            source.skipped(f"{image.path}: {error}: its row is NaN")
        ordered = sorted(
            [*batch.images, *(image for image, _ in batch.unusable)], key=attrgetter("id")
        )
        points = np.full((len(ordered), model.model.config.dimension), np.nan, np.float32)
        points[[image.id - ordered[0].id for image in batch.images]] = batch.points
        yield [{"path": str(image.path)} for image in ordered], points


def write(
    blocks: Iterable[Block],
    out: Path | None,
    shape: tuple[int, int],
    progress: Callable[[int], None],
) -> list[int]:
    """Write blocks to `.npy`, or as JSON lines to any other file or standard output.

    A file is written completely or not at all. Returns the numbers of rows without a known word.
    """
    unknown: list[int] = []
    done = 0
    with ExitStack() as stack:
        partial = None if out is None else out.with_name(f"{out.name}.partial")
        array, lines = None, sys.stdout
        if out is not None and partial is not None:
            out.parent.mkdir(parents=True, exist_ok=True)
            stack.callback(partial.unlink, missing_ok=True)
            if out.suffix == ".npy":
                array = np.lib.format.open_memmap(partial, "w+", np.float32, shape)
            else:
                lines = stack.enter_context(partial.open("w", encoding="utf-8"))
        for rows, points in blocks:
            unknown += [done + at for at, row in enumerate(rows) if row.get("known") is False]
            if array is not None:
                array[done : done + len(rows)] = points
            else:
                for row, point in zip(rows, points, strict=True):
                    lines.write(_json_line(row, point))
            done += len(rows)
            progress(done)
        if array is not None:
            array.flush()
        lines.flush()
        if out is not None and partial is not None:
            publish_file(partial, out)
    return unknown


def _json_line(row: dict[str, Any], point: np.ndarray[Any, np.dtype[np.float32]]) -> str:
    # The shortest decimals that round to the float32.
    numbers = [float(str(number)) for number in point] if np.isfinite(point).all() else None
    return json.dumps(row | {"embedding": numbers}, ensure_ascii=False) + "\n"


def _lines(text: str) -> list[str]:
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[-1] == "":
        lines.pop()
    if not lines:
        raise EmbedError("there is no line of text to embed: write one text a line")
    return lines


def _is_picture(path: Path) -> bool:
    try:
        return is_picture(path) or path.suffix.lower() in PICTURE_SUFFIXES
    except OSError as error:
        raise EmbedError(
            f"{path} cannot be read: {(error.strerror or '').lower()}; check the path"
        ) from error


def _require_alone(inputs: Sequence[Path]) -> None:
    if len(inputs) > 1:
        raise EmbedError(
            "give one file of text, or pictures and folders of pictures: the rows of both "
            "together would be ambiguous"
        )
