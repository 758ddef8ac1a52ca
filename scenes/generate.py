"""Make the built-in collection: pictures, captions and their meaning, from a seed."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from random import Random

from hasse.models.datasets import Caption, Dataset, DatasetError, Image, save
from hasse.scenes.captions import captions
from hasse.scenes.composing import compose
from hasse.scenes.drawing.scene import draw
from hasse.scenes.scene import Scene, Statement

NAME = "scenes"
PICTURES = "images"
FIRST_ID = {"train": 1, "val": 1_000_001, "test": 2_000_001}
SPLIT_LIMIT = 1_000_000
CAPTIONS_PER_IMAGE = 5
_QUALITY = 90
_CHUNK = 32


def scene_and_captions(seed: int, split: str, index: int) -> tuple[Scene, tuple[Statement, ...]]:
    """Return the scene at a position of a split and its five captions, the same every time."""
    rng = Random(f"scenes/{seed}/{split}/{index}")
    scene = compose(rng)
    return scene, captions(scene, rng)


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
    """Draw the collection into `folder` and return it; `progress` is told (done, total).

    A picture depends on the seed, its split and its position alone, so a smaller collection is
    a part of a larger one. `workers` processes draw (None: one for each core, 1: none but this
    one). Running it again completes or replaces what is there; `dataset.json` comes last.

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
    (folder / PICTURES).mkdir(parents=True, exist_ok=True)
    jobs = [
        (split, start, min(start + _CHUNK, count))
        for split, count in counts.items()
        for start in range(0, count, _CHUNK)
    ]
    total = sum(counts.values())
    images: list[Image] = []
    make = partial(_make, folder=folder, seed=seed, size=size)
    for made in _run(make, jobs, workers or os.cpu_count() or 1):
        images.extend(made)
        progress(len(images), total)
    dataset = Dataset(NAME, tuple(images))
    save(dataset, folder)
    return dataset


_Job = tuple[str, int, int]


def _run(
    make: Callable[[_Job], list[Image]], jobs: list[_Job], workers: int
) -> Iterator[list[Image]]:
    if workers == 1 or len(jobs) == 1:
        yield from map(make, jobs)
        return
    # spawn: the caller may hold threads (torch, a progress bar) that a fork would break
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(workers, len(jobs)), mp_context=context) as pool:
        try:
            yield from pool.map(make, jobs)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _make(job: _Job, *, folder: Path, seed: int, size: int) -> list[Image]:
    split, start, stop = job
    return [_make_one(folder, seed, split, index, size) for index in range(start, stop)]


def _make_one(folder: Path, seed: int, split: str, index: int, size: int) -> Image:
    scene, statements = scene_and_captions(seed, split, index)
    image_id = FIRST_ID[split] + index
    file_name = f"scenes_{split}_{image_id:012d}.jpg"
    path = folder / PICTURES / file_name
    partial_path = path.with_suffix(".partial")
    draw(scene, size).save(partial_path, "JPEG", quality=_QUALITY)
    partial_path.replace(path)
    first = (image_id - 1) * CAPTIONS_PER_IMAGE + 1
    notes = tuple(
        Caption(first + k, image_id, statement.text, statement.to_json())
        for k, statement in enumerate(statements)
    )
    return Image(image_id, file_name, path, split, size, size, notes, scene.to_json())
