from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hasse.index.kernels.threads import Workers
from hasse.index.search.search import scan
from hasse.index.search.top_k import TopK
from hasse.index.segments.prefilter import Prefilter, write_prefilter
from hasse.index.segments.segment import PREFILTER
from hasse.index.types import Ids, Orientation, Points

ROWS, DIMENSION, K = 6000, 64, 10


def facts(rng: np.random.Generator, share: float = 0.15) -> Points:
    """Return things that may be said, (100, N), of which each asks for a share of coordinates."""
    every = rng.gamma(0.3, size=(100, DIMENSION)) * (rng.random((100, DIMENSION)) < share)
    return np.asarray(every, np.float32)


def composed(rng: np.random.Generator, every: Points, count: int, most: int) -> Points:
    """Return points of which 1 to `most` facts hold, longer the more there are; jittered."""
    points = np.zeros((count, DIMENSION), np.float32)
    for point in points:
        chosen = rng.choice(len(every), rng.integers(1, most + 1), replace=False)
        point[:] = every[chosen].max(0)
    jittered = points * np.exp(0.1 * rng.standard_normal(points.shape))
    return np.asarray(jittered, np.float32)


def found(
    folder: Path,
    rows: Points,
    queries: Points,
    orientation: Orientation,
    excluded: np.ndarray,
    count: int,
) -> tuple[list[Ids], list[Ids]]:
    write_prefilter(folder / PREFILTER, rows, orientation)
    prefilter = Prefilter.open(folder / PREFILTER, rows, orientation)
    proposed = prefilter.candidates(queries, count, excluded)
    best = TopK(len(queries), K)
    scan(
        rows,
        np.arange(len(rows)),
        excluded,
        queries,
        best,
        orientation=orientation,
        workers=Workers(1),
    )
    return list(proposed), [hits.ids for hits in best.hits()]


def recall(proposed: list[Ids], exact: list[Ids]) -> float:
    shares = [np.isin(hits, rows).mean() for rows, hits in zip(proposed, exact, strict=True)]
    return float(np.mean(shares))


@pytest.mark.parametrize("unit", [True, False])
def test_prefilter_captions_of_any_length_proposes_short_ones(unit: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    every = facts(rng)
    captions, images = composed(rng, every, ROWS, 4), composed(rng, every, 50, 12)
    captions /= np.linalg.norm(captions, axis=1, keepdims=True)
    if not unit:
        captions *= rng.uniform(0.6, 1, (ROWS, 1)).astype(np.float32)
    images /= np.linalg.norm(images, axis=1, keepdims=True)
    all_live = np.zeros(0, np.bool_)
    proposed, exact = found(tmp_path, captions, images, Orientation.STORED_GENERAL, all_live, 600)
    assert recall(proposed, exact) > 0.9


def test_prefilter_prefers_no_hubs_when_they_are_a_little_longer(
    tmp_path: Path,
) -> None:
    rng = np.random.default_rng(0)
    every = facts(rng)
    captions, images = composed(rng, every, ROWS, 4), composed(rng, every, 80, 12)
    captions /= np.linalg.norm(captions, axis=1, keepdims=True)
    images /= np.linalg.norm(images, axis=1, keepdims=True)
    far = np.square(np.maximum(captions[:, None] - images[None, 50:], 0)).sum(2).mean(1)
    captions *= np.linspace(1.03, 0.97, ROWS, dtype=np.float32)[far.argsort().argsort(), None]
    all_live = np.zeros(0, np.bool_)
    proposed, exact = found(
        tmp_path, captions, images[:50], Orientation.STORED_GENERAL, all_live, 200
    )
    assert recall(proposed, exact) > 0.9


def test_prefilter_prefers_no_captions_of_common_facts(
    tmp_path: Path,
) -> None:
    rng = np.random.default_rng(0)
    every = facts(rng, 1)
    captions, images = composed(rng, every, ROWS, 4), composed(rng, every, 50, 12)
    captions /= np.linalg.norm(captions, axis=1, keepdims=True)
    images /= np.linalg.norm(images, axis=1, keepdims=True)
    all_live = np.zeros(0, np.bool_)
    proposed, exact = found(tmp_path, captions, images, Orientation.STORED_GENERAL, all_live, 600)
    assert recall(proposed, exact) > 0.95


def test_prefilter_images_above_most_captions_proposes_their_hits(
    tmp_path: Path,
) -> None:
    rng = np.random.default_rng(0)
    topics = rng.standard_normal((12, DIMENSION))
    captions = np.abs(rng.standard_normal((ROWS, 12)) @ topics).astype(np.float32)
    captions /= np.linalg.norm(captions, axis=1, keepdims=True)
    alike = np.argsort(-captions[:50] @ captions.T, axis=1)[:, :20]
    images = captions[alike].max(1)
    all_live = np.zeros(0, np.bool_)
    proposed, exact = found(tmp_path, captions, images, Orientation.STORED_GENERAL, all_live, 600)
    assert recall(proposed, exact) > 0.95


def test_prefilter_never_proposes_excluded_rows(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    every = facts(rng)
    captions, images = composed(rng, every, 500, 4), composed(rng, every, 20, 12)
    excluded = rng.random(500) < 0.5
    for orientation in (Orientation.STORED_GENERAL, Orientation.COSINE):
        proposed, _ = found(tmp_path, captions, images, orientation, excluded, 400)
        assert not excluded[np.concatenate(proposed)].any()
        assert all((np.diff(rows) > 0).all() for rows in proposed)
