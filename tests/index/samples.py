"""Points, segments and indexes to test with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hasse.index.build import Changes
from hasse.index.kernels.arrays import read_only
from hasse.index.kernels.candidates import Candidates
from hasse.index.kernels.threads import Workers
from hasse.index.search.search import score_rows
from hasse.index.segments.change import Change
from hasse.index.segments.cost_model import DEFAULT, Costs, Thresholds
from hasse.index.segments.segment import Segment, write_segment
from hasse.index.segments.snapshot import LiveSegment, Snapshot
from hasse.index.store import Index
from hasse.index.types import CaptionRow, Ids, ImageRow, Kind, ModelIdentity, Orientation, Points
from hasse.models.score import Score
from tests import oracle

# Every segment has bounds, and a prefilter from 60 rows on, as large ones have; they are searched
# by these wherever that can be.
BOUNDED = Thresholds(1, 60, Costs(1, 1, (0, 0, 0), 0, 0))

# Given the ids of the rows of a kind that are done, yield blocks of the rows that follow.
ImageBlocks: TypeAlias = Callable[[Ids], Iterable[tuple[Sequence[ImageRow], ArrayLike]]]
CaptionBlocks: TypeAlias = Callable[[Ids], Iterable[tuple[Sequence[CaptionRow], ArrayLike]]]


def changes(images: ImageBlocks, captions: CaptionBlocks) -> Changes:
    """Blocks of images, and then of captions, as the changes of a build."""

    def following(done: Mapping[Kind, Ids]) -> Iterator[Change]:
        for image_rows, points in images(done["image"]):
            yield Change(image_rows, points)
        for caption_rows, points in captions(done["caption"]):
            yield Change(captions=caption_rows, caption_points=points)

    return following


def model(dimension: int = 16, score: Score = "order", name: str = "sample") -> ModelIdentity:
    """An identity with a fingerprint that depends on the name."""
    return ModelIdentity(name, (name.encode().hex() * 64)[:64], dimension, score, "models/sample")


def embeddings(rng: np.random.Generator, rows: int, dimension: int) -> Points:
    """Points like those of a trained model: unit norm, most of the mass in few coordinates."""
    raw = np.abs(rng.standard_normal((rows, dimension))) ** 2 + 1e-6
    return np.asarray(raw / np.linalg.norm(raw, axis=1, keepdims=True), np.float32)


def grid(rng: np.random.Generator, rows: int, dimension: int) -> Points:
    """Points whose violations are exact in float32, with many ties, duplicates and zeros."""
    points = (rng.integers(0, 4, (rows, dimension)) / 8).astype(np.float32)
    points[rng.random(rows) < 0.1] = 0
    copies = rng.integers(0, rows, (2, max(1, rows // 8)))
    points[copies[0]] = points[copies[1]]
    return points


def violations(kind: Kind, score: Score, stored: Points, query: Points) -> NDArray[np.float64]:
    """What each stored row (R, N) violates with one query (N,): the plain definition."""
    x, y = (stored, query[None]) if kind == "image" else (query[None], stored)
    if score == "cosine":
        return np.asarray(1 - (x.astype(np.float64) * y.astype(np.float64)).sum(-1))
    return oracle.violation(y, x) if score == "order-reversed" else oracle.violation(x, y)


def scored(
    points: Points, query: Points, orientation: Orientation, workers: Workers | None = None
) -> Points:
    """Return the violations (R,) of all rows with one query (N,), as the kernels compute them."""
    every = Candidates.of([np.arange(len(points))])
    return score_rows(read_only(points), every, query[None], orientation, workers or Workers(1))


def segment(
    folder: Path,
    kind: Kind,
    score: Score,
    ids: NDArray[np.int64],
    points: Points,
    thresholds: Thresholds = BOUNDED,
) -> Segment:
    """Write one segment below `folder` and open it."""
    place = folder / f"segment-{len(list(folder.iterdir()))}"
    return Segment.open(place, write_segment(place, kind, score, ids, points, thresholds))


def snapshot(
    folder: Path,
    kind: Kind,
    score: Score,
    blocks: Sequence[tuple[NDArray[np.int64], Points]],
    excluded: Sequence[int] = (),
    thresholds: Thresholds = BOUNDED,
) -> Snapshot:
    """One generation of one segment for each block of ids and points."""
    live = [
        LiveSegment.all_live(segment(folder, kind, score, ids, points, thresholds)).excluding_ids(
            np.array(excluded, np.int64)
        )
        for ids, points in blocks
    ]
    return Snapshot(1, model(blocks[0][1].shape[1], score), tuple(live))


def images(ids: Sequence[int]) -> list[ImageRow]:
    """Catalog rows for images of these ids."""
    return [ImageRow(id_, f"{id_}.jpg", f"pictures/{id_}.jpg", 640, 480, "val") for id_ in ids]


def captions(ids: Sequence[int], image_ids: Sequence[int]) -> list[CaptionRow]:
    """Catalog rows for captions of these ids, of these images in turn."""
    return [
        CaptionRow(id_, image_ids[at % len(image_ids)], f"caption {id_}")
        for at, id_ in enumerate(ids)
    ]


def small_index(
    folder: Path, rows: int = 12, dimension: int = 16, thresholds: Thresholds = DEFAULT
) -> Index:
    """An index of `rows` images, ids 1 to rows, with two captions each, at generation 1."""
    rng = np.random.default_rng(0)
    index = Index.create(folder, model(dimension), threads=1, thresholds=thresholds)
    numbers = list(range(1, rows + 1))
    index.add(
        images(numbers),
        embeddings(rng, rows, dimension),
        captions(range(101, 101 + 2 * rows), numbers),
        embeddings(rng, 2 * rows, dimension),
    )
    return index
