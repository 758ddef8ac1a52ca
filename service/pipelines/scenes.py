"""Draws the built-in collection, and saves it as a dataset with meanings."""

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

    A repeated call completes or replaces an earlier one. `dataset.json` is written last.

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
        images.extend(_image(scene, size) for scene in block)
        progress(len(images), sum(counts.values()))
    dataset = Dataset(NAME, tuple(images))
    save(dataset, folder)
    return dataset


def _image(scene: DrawnScene, size: int) -> Image:
    captions = tuple(
        Caption(id_, scene.id, statement.text, statement.to_json())
        for id_, statement in scene.captions
    )
    meaning = scene.scene.to_json()
    return Image(scene.id, scene.path.name, scene.path, scene.split, size, size, captions, meaning)
