"""MS-COCO caption annotations (`captions_train2017.json`), with COCO's own ids."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from models.datasets import source
from models.datasets.builder import SPLITS, Gathering, Tally
from models.datasets.dataset import Dataset, DatasetError
from models.datasets.problems import Problems

_EXPECTED = "give MS-COCO caption annotations, such as captions_train2017.json"


def read(
    annotations: Sequence[Path],
    images: Path,
    split: str | None = None,
    *,
    progress: Tally | None = None,
) -> tuple[Dataset, Problems]:
    """Read annotation files that share one folder of pictures.

    A picture is looked for in the folder below `images` that the annotation file is named after
    (`train2017` for captions_train2017.json), and in `images` itself. `split` is given to all
    images; by default it is that of the image's row where it has one, else the one in the file's
    name.

    Raises:
        DatasetError: a file or folder is missing, a file is not of this format, nothing in it is
            usable, or no split is called `split`.
    """
    if split is not None and split.lower() not in SPLITS:
        raise DatasetError(f"no split is called '{split}': give train, val or test")
    folder = source.folder(images)
    gathering = Gathering(folder.name)
    for path in annotations:
        document = source.read_json(path)
        rows = source.rows(document, "images", path, _EXPECTED)
        notes = document.get("annotations", [])
        if not isinstance(notes, list):
            raise DatasetError(f"{path} has no list 'annotations': {_EXPECTED}")
        if notes and not any(isinstance(note, dict) and "caption" in note for note in notes):
            raise DatasetError(f"{path} has annotations, but no captions: {_EXPECTED}")
        named = re.search(r"(?<![a-z])(train|val|test)(?=ing|idation|[^a-z]|$)\d*", path.stem)
        folders = [folder / named.group(), folder] if named else [folder]
        of_file = named.group(1) if named else ""
        for at, row in enumerate(rows):
            if not isinstance(row, dict):
                gathering.problems.add(f"{path.name}, images[{at}]", "row that is no object")
                continue
            gathering.image(
                row.get("id"),
                row.get("file_name"),
                folders,
                split=row.get("split", of_file) if split is None else split,
            )
        for at, note in enumerate(notes):
            if not isinstance(note, dict):
                gathering.problems.add(f"{path.name}, annotations[{at}]", "row that is no object")
                continue
            gathering.caption(note.get("id"), note.get("image_id"), note.get("caption"))
    dataset = gathering.finish(progress=progress)
    return dataset, gathering.problems
