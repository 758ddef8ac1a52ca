"""Draw the built-in collection: pictures, captions and their meaning, from a seed."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

from hasse.scenes.captions import captions
from hasse.scenes.composing import compose
from hasse.scenes.drawing.scene import draw
from hasse.scenes.scene import Scene, Statement

PICTURES = "images"
FIRST_ID = {"train": 1, "val": 1_000_001, "test": 2_000_001}
SPLIT_LIMIT = 1_000_000
CAPTIONS_PER_IMAGE = 5
_QUALITY = 90
_CHUNK = 32


@dataclass(frozen=True, slots=True)
class DrawnScene:
    """A picture on disk, its scene, and its captions with their ids."""

    id: int
    path: Path
    split: str
    scene: Scene
    captions: tuple[tuple[int, Statement], ...]


def scene_and_captions(seed: int, split: str, index: int) -> tuple[Scene, tuple[Statement, ...]]:
    """Return the scene at a position of a split and its five captions, the same every time."""
    rng = Random(f"scenes/{seed}/{split}/{index}")
    scene = compose(rng)
    return scene, captions(scene, rng)


def draw_collection(
    folder: Path, counts: Mapping[str, int], *, seed: int, size: int, workers: int | None
) -> Iterator[list[DrawnScene]]:
    """Draw so many pictures of each split into `folder`, and yield them in blocks, in order.

    A picture depends on the seed, its split and its position alone, so a smaller collection is
    a part of a larger one. `workers` processes draw (None: one for each core, 1: this one). A
    picture that is there already is drawn again.
    """
    (folder / PICTURES).mkdir(parents=True, exist_ok=True)
    jobs = [
        (split, start, min(start + _CHUNK, count))
        for split, count in counts.items()
        for start in range(0, count, _CHUNK)
    ]
    workers = workers or os.cpu_count() or 1
    draw_block = partial(_draw_block, folder=folder, seed=seed, size=size)
    if workers == 1 or len(jobs) == 1:
        yield from map(draw_block, jobs)
        return
    # spawn: the caller may hold threads (torch, a progress bar) that a fork would break
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(workers, len(jobs)), mp_context=context) as pool:
        try:
            yield from pool.map(draw_block, jobs)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


_Job = tuple[str, int, int]


def _draw_block(job: _Job, *, folder: Path, seed: int, size: int) -> list[DrawnScene]:
    split, start, stop = job
    return [_draw_one(folder, seed, split, index, size) for index in range(start, stop)]


def _draw_one(folder: Path, seed: int, split: str, index: int, size: int) -> DrawnScene:
    scene, statements = scene_and_captions(seed, split, index)
    image_id = FIRST_ID[split] + index
    path = folder / PICTURES / f"scenes_{split}_{image_id:012d}.jpg"
    partial_path = path.with_suffix(".partial")
    draw(scene, size).save(partial_path, "JPEG", quality=_QUALITY)
    partial_path.replace(path)
    first = (image_id - 1) * CAPTIONS_PER_IMAGE + 1
    return DrawnScene(image_id, path, split, scene, tuple(enumerate(statements, first)))
