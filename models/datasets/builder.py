"""Build a `Dataset` from the rows of a collection, whatever its format.

An importer reads a format. The checks of rows are here, the same for all formats. A bad row is
noted in `SkippedRows`, and the other rows are read.
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

ProgressCallback = Callable[[int, int], None]  # receives the number done, and the total

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
MAX_CAPTION_WORDS = 100  # of a caption that models read, by default
_CHUNK = 256
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
    """Builds a dataset from the rows of a collection, images first, then captions."""

    def __init__(self, name: str) -> None:
        """Begin a dataset; broken characters in its name become '?'."""
        self.name = name.encode(errors="replace").decode()
        self.skipped = SkippedRows()
        self._rows: dict[int, _Row] = {}
        self._refused: set[object] = set()
        self._caption_ids: set[int] = set()
        self._files = FileFinder()

    def objects(self, rows: Iterable[Any], where: str) -> Iterator[dict[str, Any]]:
        """Yield the objects of a JSON list; `where` names the list in messages."""
        for number, row in enumerate(rows):
            if isinstance(row, dict):
                yield row
            else:
                self.skipped.add(f"{where}[{number}]", "row that is not an object")

    def add_image(
        self,
        image_id: object,
        file_name: object,
        folders: Sequence[Path],
        *,
        split: object = "",
    ) -> bool:
        """Add an image, and return whether it was accepted.

        Its picture is searched in `folders`, which are absolute, in turn.
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
            standard = SPLITS.get(split.lower()) if isinstance(split, str) else None
            if standard is None:
                self.skipped.add(subject, "unknown split", "in no split", str(split))
            self._rows[number] = _Row(number, name, path, standard or "")
            return True
        return False

    def add_caption(
        self, caption_id: object, image_id: object, text: object, subject: str = ""
    ) -> None:
        """Add a caption of an image added before; whitespace within it becomes single spaces."""
        subject = subject or f"caption {caption_id} of image {image_id}"
        number, owner = as_id(caption_id), as_id(image_id)
        if isinstance(number, str):
            self.skipped.add(subject, number)
        elif number in self._caption_ids:
            self.skipped.add(subject, "id of an earlier caption")
        elif (plain_text := caption_text(text, subject, self.skipped)) is None:
            return
        elif isinstance(owner, str) or owner not in self._rows:
            if not isinstance(image_id, int | str) or image_id not in self._refused:
                self.skipped.add(subject, "caption of an unknown image")
        else:
            self._caption_ids.add(number)
            self._rows[owner].captions.append(Caption(number, owner, plain_text))

    def finish(
        self,
        *,
        progress: ProgressCallback = lambda done, total: None,
        limits: PictureLimits = DEFAULT_LIMITS,
        chunk: int = _CHUNK,
    ) -> tuple[Dataset, SkippedRows]:
        """Return the dataset of all images with usable pictures, and the skipped rows.

        Reads each picture's header, for its width and height, and to find empty files and
        unknown formats. If some images have captions, an image without any is a problem.

        Raises:
            DatasetError: nothing is usable; the message names the commonest problems.
        """
        images = tuple(self._usable(progress, limits, chunk))
        if not images:
            lines = self.skipped.lines[:1]
            reason = f" ({self.skipped.summary()}; the first: {lines[0]})" if lines else ""
            raise DatasetError(
                f"no image of '{self.name}' is usable{reason}: "
                f"check the folder of pictures and the file of captions"
            )
        return Dataset(self.name, images), self.skipped

    def _usable(
        self, progress: ProgressCallback, limits: PictureLimits, chunk: int
    ) -> Iterator[Image]:
        rows = list(self._rows.values())
        sizes = sizes_of([row.path for row in rows], limits, chunk)
        for done, (row, size) in enumerate(zip(rows, sizes, strict=True), start=1):
            if isinstance(size, PictureError):
                note_unusable(self.skipped, str(row), row.path, size)
            else:
                if self._caption_ids and not row.captions:
                    self.skipped.add(str(row), "no captions", "kept, can be found")
                yield Image(row.id, row.file_name, row.path, row.split, *size, tuple(row.captions))
            if done % chunk == 0 or done == len(rows):
                progress(done, len(rows))

    def _refuse(self, image_id: object, subject: str, reason: str) -> None:
        # One line for the image is enough: its captions get none.
        if isinstance(image_id, int | str):
            self._refused.add(image_id)
        self.skipped.add(subject, reason)


def sizes_of(
    paths: Sequence[Path], limits: PictureLimits, chunk: int = _CHUNK
) -> Iterator[tuple[int, int] | PictureError]:
    """Yield the width and height of each picture from its header, or the error."""
    chunks = [paths[start : start + chunk] for start in range(0, len(paths), chunk)]
    with ThreadPoolExecutor(_THREADS) as pool:
        for sizes in pool.map(lambda each: [_size(path, limits) for path in each], chunks):
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
    """Return a caption with single spaces, or None for an invalid one; note what is wrong."""
    if not isinstance(value, str):
        skipped.add(subject, "caption that is not text")
    elif not value.strip():
        skipped.add(subject, "empty caption")
    elif not is_text(value):
        skipped.add(subject, "caption with broken characters")
    else:
        text = " ".join(value.split())
        if len(text) > MAX_CAPTION_WORDS and len(words(text)) > MAX_CAPTION_WORDS:
            reason = f"caption of more than {MAX_CAPTION_WORDS} words"
            skipped.add(subject, reason, f"kept, models read the first {MAX_CAPTION_WORDS} words")
        return text
    return None
