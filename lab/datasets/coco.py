"""MS-COCO caption annotations (`captions_train2017.json`), with COCO's own ids."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from hasse.models.datasets import source
from hasse.models.datasets.builder import SPLITS, DatasetBuilder, ProgressCallback
from hasse.models.datasets.dataset import Dataset, DatasetError
from hasse.models.datasets.skipped_rows import SkippedRows
from hasse.models.images.limits import DEFAULT_LIMITS, PictureLimits

_EXPECTED = "give MS-COCO caption annotations, such as captions_train2017.json"


def read(
    annotations: Sequence[Path],
    images: Path,
    split: str | None = None,
    *,
    progress: ProgressCallback = lambda done, total: None,
    limits: PictureLimits = DEFAULT_LIMITS,
) -> tuple[Dataset, SkippedRows]:
    """Read annotation files that share one folder of pictures.

    A picture is searched in the folder below `images` with the split of the annotation file's name
    (`train2017` for captions_train2017.json), then in `images` itself. `split` is the split of all
    images. By default it is that of the image's row, else that of the annotation file's name.

    Raises:
        DatasetError: a file or folder is missing, a file is not of this format, nothing in it is
            usable, or no split is called `split`.
    """
    if split is not None and split.lower() not in SPLITS:
        raise DatasetError(f"no split is called '{split}': give train, val or test")
    folder = source.folder(images)
    builder = DatasetBuilder(folder.name)
    for path in annotations:
        document = source.read_json(path)
        rows = source.rows(document, "images", path, _EXPECTED)
        notes = document.get("annotations", [])
        if not isinstance(notes, list):
            raise DatasetError(f"{path} has no list 'annotations': {_EXPECTED}")
        if notes and not any(isinstance(note, dict) and "caption" in note for note in notes):
            raise DatasetError(f"{path} has annotations, but no captions: {_EXPECTED}")
        in_name = re.search(r"(?<![a-z])(train|val|test)(?=ing|idation|[^a-z]|$)\d*", path.stem)
        folders = [folder / in_name.group(), folder] if in_name else [folder]
        split_of_file = in_name.group(1) if in_name else ""
        for row in builder.objects(rows, f"{path.name}, images"):
            builder.add_image(
                row.get("id"),
                row.get("file_name"),
                folders,
                split=row.get("split", split_of_file) if split is None else split,
            )
        for note in builder.objects(notes, f"{path.name}, annotations"):
            builder.add_caption(note.get("id"), note.get("image_id"), note.get("caption"))
    return builder.finish(progress=progress, limits=limits)
