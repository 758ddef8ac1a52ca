"""Karpathy's split files: `dataset_coco.json` and its siblings of Flickr8k and Flickr30k."""

from __future__ import annotations

from pathlib import Path

from hasse.models.datasets import source
from hasse.models.datasets.builder import DatasetBuilder, ProgressCallback
from hasse.models.datasets.dataset import Dataset
from hasse.models.datasets.names import plain_name, stays_inside
from hasse.models.datasets.skipped_rows import SkippedRows
from hasse.models.images.limits import DEFAULT_LIMITS, PictureLimits


def read(
    path: Path,
    images: Path,
    *,
    progress: ProgressCallback = lambda done, total: None,
    limits: PictureLimits = DEFAULT_LIMITS,
) -> tuple[Dataset, SkippedRows]:
    """Read a split file. Pictures are below `images`, in their row's `filepath` if it has one.

    Image ids are COCO's if the file has them, else its own `imgid`; caption ids are `sentid`.
    COCO's "restval" counts as train, as is usual.

    Raises:
        DatasetError: a file or folder is missing, it is not of this format, or nothing in it is
            usable.
    """
    folder = source.folder(images)
    document = source.read_json(path)
    rows = source.rows(
        document, "images", path, "give one of Karpathy's files, such as dataset_coco.json"
    )
    builder = DatasetBuilder(str(document.get("dataset") or path.stem))
    for row in builder.objects(rows, f"{path.name}, images"):
        image_id = row.get("cocoid", row.get("imgid"))
        filepath = row.get("filepath", "")
        subfolder = plain_name(filepath) if isinstance(filepath, str) else ".."
        folders = [folder / subfolder, folder] if stays_inside(subfolder) else [folder]
        if not builder.add_image(
            image_id, row.get("filename"), folders, split=row.get("split", "")
        ):
            continue  # an earlier image of that id may be another picture
        sentences = row.get("sentences", [])
        if not isinstance(sentences, list):
            builder.skipped.add(f"image {image_id}", "sentences that are not a list", "no captions")
            continue
        for sentence in builder.objects(sentences, f"image {image_id}, sentences"):
            builder.add_caption(sentence.get("sentid"), image_id, sentence.get("raw"))
    return builder.finish(progress=progress, limits=limits)
