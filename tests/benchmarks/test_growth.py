from __future__ import annotations

import numpy as np
import pytest

from benchmarks.search import growth
from benchmarks.search.growth import Growth, profiles
from hasse.index.types import Kind, Points
from tests.benchmarks.samples import source


def rows_of(grown: Growth, rows: int, start: int = 0) -> Points:
    return np.concatenate([block for _, block in grown.blocks(rows, start)])


def test_the_first_rows_are_the_real_ones() -> None:
    real = source().images
    first = rows_of(Growth(real), len(real))
    assert np.array_equal(np.sort(first, axis=0), np.sort(real, axis=0))


def test_a_row_is_the_same_at_every_size_and_from_every_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(growth, "BLOCK", 128)
    grown = Growth(source().images)
    whole = rows_of(grown, 1000)
    assert len(whole) == 1000
    for rows, start in ((1000, 1), (1000, 128), (500, 333), (300, 299)):
        blocks = list(grown.blocks(rows, start))
        assert blocks[0][0] == start
        assert np.array_equal(rows_of(grown, rows, start), whole[start:rows])
    assert len(np.unique(whole, axis=0)) == 1000


@pytest.mark.parametrize("kind", ["image", "caption"])
def test_grown_rows_keep_length_weights_and_violations_of_real_ones(kind: Kind) -> None:
    sample = source(images=1200, captions=1200)
    seen = profiles(sample.stored(kind), sample.asking(kind), kind)
    real, grown, quarter = (seen[n] for n in ("real", "a quarter, grown", "a quarter"))
    assert (real.rows, grown.rows, quarter.rows) == (1200, 1200, 300)
    for name in ("norm", "small", "heavy", "tenth", "hundredth", "median"):
        assert getattr(grown, name) == pytest.approx(getattr(real, name), rel=0.1, abs=0.01), name
    # So few real rows lie much farther from a query: growing fills in what is missing.
    assert abs(grown.hundredth - real.hundredth) < abs(quarter.hundredth - real.hundredth) / 2
