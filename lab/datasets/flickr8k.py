"""Flickr8k (and Flickr30k) as first published: a token file, and one list of names per split."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from hasse.models.datasets import source
from hasse.models.datasets.builder import DatasetBuilder, ProgressCallback
from hasse.models.datasets.dataset import Dataset, DatasetError
from hasse.models.datasets.names import normalised_name
from hasse.models.datasets.skipped_rows import SkippedRows
from hasse.models.images.limits import DEFAULT_LIMITS, PictureLimits

_LINE = re.compile(r"(?P<name>[^\t#]+)#\d+\t(?P<caption>.*)")
# Flickr8k's own token file calls one picture '2258277193_586949ec62.jpg.1'.
_NUMBERED = re.compile(r"(\.jpe?g)\.\d+$", re.IGNORECASE)


def read(
    tokens: Path,
    images: Path,
    splits: Mapping[str, Path],
    *,
    progress: ProgressCallback = lambda done, total: None,
    limits: PictureLimits = DEFAULT_LIMITS,
) -> tuple[Dataset, SkippedRows]:
    """Read `Flickr8k.token.txt` ("name.jpg#0<TAB>caption") and the names of each split.

    Images are numbered from 1 in the order of the token file, and captions by its lines, so ids
    do not change when pictures are missing. An image in no list has the split ''.

    Raises:
        DatasetError: a file or folder is missing, no line is of this form, or nothing is usable.
    """
    folder = source.folder(images)
    builder = DatasetBuilder(folder.parent.name if folder.name.lower() == "images" else folder.name)
    captions: list[tuple[int, str, str]] = []
    for number, line in enumerate(source.read_text(tokens).split("\n"), start=1):
        if not line.strip():
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            builder.skipped.add(f"{tokens.name}, line {number}", "line that is not a caption")
            continue
        captions.append((number, _NUMBERED.sub(r"\1", match["name"].strip()), match["caption"]))
    if not captions:
        raise DatasetError(
            f"{tokens} has no line like 'name.jpg#0<TAB>caption': give Flickr8k.token.txt"
        )
    ids: dict[str, int] = {}
    for _, name, _ in captions:
        ids.setdefault(normalised_name(name), len(ids) + 1)
    split_of = _splits(splits, ids, builder.skipped)
    for name, image_id in ids.items():
        builder.add_image(image_id, name, [folder], split=split_of.get(name, ""))
    for number, name, text in captions:
        builder.add_caption(
            number, ids[normalised_name(name)], text, f"{tokens.name}, line {number}"
        )
    return builder.finish(progress=progress, limits=limits)


def _splits(
    splits: Mapping[str, Path], ids: Mapping[str, int], skipped: SkippedRows
) -> dict[str, str]:
    split_of: dict[str, str] = {}
    for split, path in splits.items():
        for number, line in enumerate(source.read_text(path).splitlines(), start=1):
            name = normalised_name(line)
            if not name:
                continue
            subject = f"{path.name}, line {number} ({name})"
            if name not in ids:
                skipped.add(subject, "image that has no captions in the token file")
            elif split_of.setdefault(name, split) != split:
                skipped.add(subject, "image of two splits", f"stays in {split_of[name]}")
    return split_of
