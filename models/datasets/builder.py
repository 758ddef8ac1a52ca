"""Build a `Dataset` from the rows of a collection, whatever its format.

An importer knows a format; the checks of rows are the same for all of them and are here. A bad
row is noted in `SkippedRows`, and the other rows are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hasse.models.datasets.dataset import Caption, Dataset, DatasetError, Image
from hasse.models.datasets.names import FileFinder, as_id, stays_inside
from hasse.models.datasets.skipped_rows import TOO_LARGE, SkippedRows, printable
from hasse.models.datasets.source import is_file, is_text
from hasse.models.images.decoding import picture_size
from hasse.models.images.limits import DEFAULT_LIMITS, PictureError, PictureLimits
from hasse.models.vocabulary import words

Tally = Callable[[int, int], None]  # receives the number done, and the total

SPLITS = {
    "": "",
    "train": "train",
    "training": "train",
    "restval": "train",  # MS-COCO's validation pictures that Karpathy's split trains on
    "val": "val",
    "valid": "val",
    "validation": "val",
    "dev": "val",
    "test": "test",
}
MOST_WORDS = 100  # that the models read of a caption, unless they were trained otherwise
_AT_A_TIME = 256
_THREADS = 8


@dataclass(slots=True)
class _Row:
    """An image whose picture has not been checked yet."""

    id: int
    file_name: str
    path: Path
    split: str
    captions: list[Caption] = field(default_factory=list)

    def __str__(self) -> str:
        return f"image {self.id} ({self.file_name})"


class DatasetBuilder:
    """Takes the rows of a collection, images first, then captions."""

    def __init__(self, name: str) -> None:
        """Begin a collection; broken characters in its name become '?'."""
        self.name = name.encode(errors="replace").decode()
        self.skipped = SkippedRows()
        self._rows: dict[int, _Row] = {}
        self._refused: set[object] = set()
        self._caption_ids: set[int] = set()
        self._files = FileFinder()

    def objects(self, rows: Iterable[Any], where: str) -> Iterator[dict[str, Any]]:
        """Yield the rows of a JSON list that are objects; `where` names the list."""
        for at, row in enumerate(rows):
            if isinstance(row, dict):
                yield row
            else:
                self.skipped.add(f"{where}[{at}]", "row that is no object")

    def image(
        self,
        image_id: object,
        file_name: object,
        folders: Sequence[Path],
        *,
        split: object = "",
    ) -> bool:
        """Add an image, and return whether it was accepted.

        Its picture is looked for in `folders`, which are absolute, in turn.
        """
        subject = f"image {image_id} ({file_name})"
        number = as_id(image_id)
        if isinstance(number, str):
            self._refuse(image_id, subject, number)
        elif number in self._rows:
            self.skipped.add(subject, "id of an earlier image")
        elif not isinstance(file_name, str) or not file_name.strip():
            self._refuse(image_id, f"image {image_id}", "no file name")
        elif not all(is_text(str(folder / file_name)) for folder in folders):
            self._refuse(image_id, subject, "file name with broken characters")
        elif not stays_inside(file_name):
            self._refuse(image_id, subject, "file name that leaves its folder")
        else:
            name, path = self._files.find(folders, file_name)
            known = SPLITS.get(split.lower()) if isinstance(split, str) else None
            if known is None:
                self.skipped.add(subject, "unknown split", "in no split", str(split))
            self._rows[number] = _Row(number, name, path, known or "")
            return True
        return False

    def caption(
        self, caption_id: object, image_id: object, text: object, subject: str = ""
    ) -> None:
        """Add a caption of an image added before; whitespace within it becomes single spaces."""
        subject = subject or f"caption {caption_id} of image {image_id}"
        number, of_image = as_id(caption_id), as_id(image_id)
        if isinstance(number, str):
            self.skipped.add(subject, number)
        elif number in self._caption_ids:
            self.skipped.add(subject, "id of an earlier caption")
        elif (plain := caption_text(text, subject, self.skipped)) is None:
            return
        elif isinstance(of_image, str) or of_image not in self._rows:
            if not isinstance(image_id, int | str) or image_id not in self._refused:
                self.skipped.add(subject, "caption of an unknown image")
        else:
            self._caption_ids.add(number)
            self._rows[of_image].captions.append(Caption(number, of_image, plain))

    def finish(
        self,
        *,
        progress: Tally = lambda done, total: None,
        limits: PictureLimits = DEFAULT_LIMITS,
        at_a_time: int = _AT_A_TIME,
    ) -> tuple[Dataset, SkippedRows]:
        """Return the images whose pictures can be used, in their order, and what was skipped.

        Each picture's header is read, which finds empty files and other formats, and gives widths
        and heights. Where others have captions, an image without any is noted as a problem.

        Raises:
            DatasetError: nothing is usable; the message names the commonest problems.
        """
        images = tuple(self._usable(progress, limits, at_a_time))
        if not images:
            lines = self.skipped.lines[:1]
            why = f" ({self.skipped.summary()}; the first: {lines[0]})" if lines else ""
            raise DatasetError(
                f"no image of '{self.name}' is usable{why}: "
                f"check the folder of pictures and the file of captions"
            )
        return Dataset(self.name, images), self.skipped

    def _usable(self, progress: Tally, limits: PictureLimits, at_a_time: int) -> Iterator[Image]:
        rows = list(self._rows.values())
        sizes = sizes_of([row.path for row in rows], limits, at_a_time)
        for done, (row, size) in enumerate(zip(rows, sizes, strict=True), start=1):
            if isinstance(size, PictureError):
                note_unusable(self.skipped, str(row), row.path, size)
            else:
                if self._caption_ids and not row.captions:
                    self.skipped.add(str(row), "no captions", "kept, can be found")
                yield Image(row.id, row.file_name, row.path, row.split, *size, tuple(row.captions))
            if done % at_a_time == 0 or done == len(rows):
                progress(done, len(rows))

    def _refuse(self, image_id: object, subject: str, reason: str) -> None:
        # One line for the image is enough; its captions would say the same again.
        if isinstance(image_id, int | str):
            self._refused.add(image_id)
        self.skipped.add(subject, reason)


def sizes_of(
    paths: Sequence[Path], limits: PictureLimits, at_a_time: int = _AT_A_TIME
) -> Iterator[tuple[int, int] | PictureError]:
    """Yield the width and height of each picture, or why it cannot be used, by its header."""
    parts = [paths[at : at + at_a_time] for at in range(0, len(paths), at_a_time)]
    with ThreadPoolExecutor(_THREADS) as pool:
        for sizes in pool.map(lambda part: [_size(path, limits) for path in part], parts):
            yield from sizes


def _size(path: Path, limits: PictureLimits) -> tuple[int, int] | PictureError:
    try:
        return picture_size(path, limits)
    except PictureError as error:
        return error


def note_unusable(skipped: SkippedRows, subject: str, path: Path, error: PictureError) -> None:
    """Note a picture that cannot be used."""
    if not is_file(path):
        skipped.add(subject, "file not found")
    else:
        reason = {
            "not_a_picture": "not a picture",
            "too_many_pixels": TOO_LARGE,
            "damaged": "damaged picture",
            "missing_package": "format that needs another package",
        }[error.reason]
        skipped.note(reason, f"{printable(subject)}: {printable(str(error))}: skipped")


def caption_text(value: object, subject: str, skipped: SkippedRows) -> str | None:
    """Return a caption with single spaces, or None where it cannot be one; note what is wrong."""
    if not isinstance(value, str):
        skipped.add(subject, "caption that is not text")
    elif not value.strip():
        skipped.add(subject, "empty caption")
    elif not is_text(value):
        skipped.add(subject, "caption with broken characters")
    else:
        text = " ".join(value.split())
        if len(text) > MOST_WORDS and len(words(text)) > MOST_WORDS:
            reason = f"caption of more than {MOST_WORDS} words"
            skipped.add(subject, reason, f"kept, models read the first {MOST_WORDS} words")
        return text
    return None
