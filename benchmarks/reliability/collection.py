"""A collection as large as one likes, of points only: captions of scenes, and what joins them.

A caption's point is the built-in model's. An image's is the join of the points of the five
captions of a scene, lessened and disturbed at random, so that it lies below them as a drawn
picture's does; nothing is drawn.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hasse.index.build import build
from hasse.index.catalog.database import CATALOG_URL
from hasse.index.catalog.schema import FORMAT
from hasse.index.segments.change import Change
from hasse.index.segments.compaction import ROWS_PER_SEGMENT
from hasse.index.types import CaptionRow, Ids, ImageRow, Kind, ModelIdentity
from hasse.models.checkpoints import checkpoint, named_models
from hasse.scenes.generate import CAPTIONS_PER_IMAGE, scene_and_captions

Points = NDArray[np.float32]

_SCENES = 1000
_BLOCK = 10_000


def captions(scenes: int = _SCENES) -> list[str]:
    """Return captions of scenes, five of each in a row: what clients ask for."""
    return [
        statement.text for at in range(scenes) for statement in scene_and_captions(0, "test", at)[1]
    ]


def collection(
    folder: Path, rows: int, *, catalog: str = "", rows_per_segment: int = ROWS_PER_SEGMENT
) -> Path:
    """Build an index of `rows` images with a caption each below `folder`, unless it is there.

    Its catalog is in the empty database that `catalog` names, if any.
    """
    place, note = folder / f"rows-{rows}", folder / f"rows-{rows}.json"
    built_in = checkpoint.load(named_models.pretrained())
    made_of = {"rows": rows, "model": built_in.fingerprint, "format": FORMAT}
    if note.exists() and json.loads(note.read_text()) == made_of:
        return place
    shutil.rmtree(place, ignore_errors=True)  # of another model or format, or not finished
    texts = captions(min(_SCENES, rows))
    below = built_in.model.encode_captions(texts)
    scenes = below.reshape(-1, CAPTIONS_PER_IMAGE, below.shape[1]).max(axis=1)

    def changes(done: Mapping[Kind, Ids]) -> Iterator[Change]:
        for at in range(len(done["image"]), rows, _BLOCK):
            ids = range(at, min(at + _BLOCK, rows))
            # The captions of a scene in turn, for one after another of its images.
            chosen = [
                n % len(scenes) * CAPTIONS_PER_IMAGE + n // len(scenes) % CAPTIONS_PER_IMAGE
                for n in ids
            ]
            yield Change(
                [ImageRow(n, f"{n}.jpg", f"{n}.jpg", 192, 192, "test") for n in ids],
                _disturbed(scenes[np.array(ids) % len(scenes)], at),
                [CaptionRow(n, n, texts[text]) for n, text in zip(ids, chosen, strict=True)],
                below[chosen],
            )

    config = built_in.model.config
    identity = ModelIdentity(
        built_in.name,
        built_in.fingerprint,
        config.dimension,
        config.score,
        str(built_in.folder),
    )
    place.mkdir(parents=True, exist_ok=True)
    if catalog:
        (place / CATALOG_URL).write_text(catalog)
    build(
        place,
        identity,
        changes,
        source=f"{rows} points",
        total=2 * rows,
        rows_per_segment=rows_per_segment,
    ).close()
    note.write_text(json.dumps(made_of))
    return place


def _disturbed(points: Points, seed: int) -> Points:
    rng = np.random.default_rng(seed)
    less = points * rng.uniform(0.6, 1.0, points.shape) + rng.exponential(0.004, points.shape)
    return np.asarray(less / np.linalg.norm(less, axis=1, keepdims=True), np.float32)
