from __future__ import annotations

from pathlib import Path

import numpy as np

from hasse.index.segments.cost_model import Costs, Thresholds
from hasse.index.segments.segment import MANIFEST, POINTS
from hasse.index.store import Index
from hasse.index.types import Kind
from tests.index.samples import captions, embeddings, images, model


def size(path: Path) -> int:
    return sum(file.stat().st_size for file in path.iterdir())


def test_each_segment_is_described_as_it_is_searched(tmp_path: Path) -> None:
    # One query alone is bounded from 63 rows of 16 coordinates on, and of a batch none.
    costs = Costs(1, 0, (0, 0, 0), overhead=1, candidate=0)
    large = Thresholds(61 * 16 * 4, 100, costs)
    points = embeddings(np.random.default_rng(0), 150, 16)
    ids = range(1, 61)
    with Index.create(tmp_path / "i", model(), threads=1, thresholds=large) as index:
        index.add(images(ids), points[:60])
        index.add([], np.empty((0, 16)), captions(range(1, 151), ids), points)
        index.remove([5])
        info = index.info()
        found = {segment.kind: segment for segment in info.segments}
        places = {kind: tmp_path / "i" / "segments" / found[kind].name for kind in found}
        said: list[tuple[Kind, int, int, int]] = [("image", 60, 59, 1), ("caption", 150, 147, 2)]
        for kind, rows, live, generation in said:
            one = found[kind]
            assert (one.rows, one.live, one.generation) == (rows, live, generation)
            assert one.bytes == size(places[kind])
        assert (found["image"].bounds, found["caption"].bounds) == ("none", "half-bytes, bytes")
        assert found["image"].prefilter == "none"
        assert found["caption"].prefilter.startswith("IVF")
        assert (found["image"].plan, found["caption"].plan) == ("scan", "bounds")
        assert (info.images, info.captions, info.generation) == (59, 147, 3)
        assert info.bytes == sum(map(size, places.values()))
        read_here_and_there = (places["caption"] / POINTS).stat().st_size
        manifests = sum((place / MANIFEST).stat().st_size for place in places.values())
        assert info.resident == info.bytes - manifests - read_here_and_there
