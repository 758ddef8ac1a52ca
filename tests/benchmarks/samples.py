"""A folder of points like those of a trained model, small enough for a test."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.search.source import Source
from hasse.index.types import Points

DIMENSION = 64


def source(images: int = 300, captions: int = 500, asking: int = 40) -> Source:
    """Points of a made-up model."""
    rng = np.random.default_rng(0)
    topics = rng.gamma(0.3, size=(12, DIMENSION))
    counts = (images, captions, asking, asking)
    return Source("sample", *(_about(topics, rng, count) for count in counts))


def _about(topics: NDArray[np.float64], rng: np.random.Generator, count: int) -> Points:
    """Points of unit length, each about a few topics."""
    weights = rng.gamma(0.5, size=(count, len(topics)))
    raw = weights @ topics + 0.1 * rng.gamma(0.3, size=(count, DIMENSION))
    return np.asarray(raw / np.linalg.norm(raw, axis=1, keepdims=True), np.float32)


def points_folder(folder: Path) -> Path:
    """Write the sample where the benchmark can read it."""
    source().save(folder)
    return folder
