"""The built-in collection as a dataset, with the meaning of its pictures and captions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hasse.models.datasets import Caption, Dataset, DatasetError, Image, save
from hasse.scenes.generate import SPLIT_LIMIT, DrawnScene, draw_collection

NAME = "scenes"


def generate(
    folder: Path,
    *,
    train: int,
    val: int,
    test: int,
    seed: int = 0,
    size: int = 192,
    workers: int | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Dataset:
    """Draw the collection into `folder` and return it; see `hasse.scenes.generate`.

    Running it again completes or replaces what is there; `dataset.json` comes last.

    Raises:
        DatasetError: a split, the size or the number of workers is out of range.
    """
    counts = {"train": train, "val": val, "test": test}
    if min(counts.values()) < 0 or max(counts.values()) > SPLIT_LIMIT or sum(counts.values()) == 0:
        raise DatasetError(
            f"each split of the scenes takes 0 to {SPLIT_LIMIT:,} pictures and one of them at "
            f"least 1: got train {train}, val {val}, test {test}"
        )
    if not 32 <= size <= 2048:
        raise DatasetError(f"a scene is drawn at 32 to 2048 pixels, not {size}: choose such a size")
    if workers is not None and workers < 1:
        raise DatasetError(f"drawing takes at least 1 worker, not {workers}: leave it out for all")
    folder = folder.resolve()
    images: list[Image] = []
    for block in draw_collection(folder, counts, seed=seed, size=size, workers=workers):
        images.extend(_image(drawn, size) for drawn in block)
        progress(len(images), sum(counts.values()))
    dataset = Dataset(NAME, tuple(images))
    save(dataset, folder)
    return dataset


def _image(drawn: DrawnScene, size: int) -> Image:
    captions = tuple(
        Caption(id_, drawn.id, statement.text, statement.to_json())
        for id_, statement in drawn.captions
    )
    meaning = drawn.scene.to_json()
    return Image(drawn.id, drawn.path.name, drawn.path, drawn.split, size, size, captions, meaning)
