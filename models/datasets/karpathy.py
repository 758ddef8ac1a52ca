"""Karpathy's split files: `dataset_coco.json` and its siblings of Flickr8k and Flickr30k."""

from __future__ import annotations

from pathlib import Path

from models.datasets import source
from models.datasets.builder import Gathering, Tally, stays_inside
from models.datasets.dataset import Dataset
from models.datasets.problems import Problems


def read(
    path: Path,
    images: Path,
    *,
    progress: Tally | None = None,
) -> tuple[Dataset, Problems]:
    """Read a split file; pictures are below `images`, in `val2014` and so on where it says so.

    Image ids are COCO's where the file has them, else its own `imgid`; caption ids are `sentid`.
    COCO's "restval" counts as train, as everybody trains on it.

    Raises:
        DatasetError: a file or folder is missing, it is not of this format, or nothing in it is
            usable.
    """
    folder = source.folder(images)
    document = source.read_json(path)
    rows = source.rows(
        document, "images", path, "give one of Karpathy's files, such as dataset_coco.json"
    )
    gathering = Gathering(str(document.get("dataset") or path.stem))
    for at, row in enumerate(rows):
        if not isinstance(row, dict):
            gathering.problems.add(f"{path.name}, images[{at}]", "row that is no object")
            continue
        image_id = row.get("cocoid", row.get("imgid"))
        filepath = row.get("filepath", "")
        inside = isinstance(filepath, str) and stays_inside(filepath)
        folders = [folder / filepath, folder] if inside else [folder]
        if not gathering.image(image_id, row.get("filename"), folders, split=row.get("split", "")):
            continue  # an earlier image of that id may be another picture
        sentences = row.get("sentences", [])
        if not isinstance(sentences, list):
            gathering.problems.add(f"image {image_id}", "sentences that are no list", "no captions")
            continue
        for sentence in sentences:
            if not isinstance(sentence, dict):
                gathering.problems.add(f"image {image_id}", "sentence that is no object")
                continue
            gathering.caption(sentence.get("sentid"), image_id, sentence.get("raw"))
    dataset = gathering.finish(progress=progress)
    return dataset, gathering.problems
