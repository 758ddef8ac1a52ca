from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from hasse.index.bounds.quantizer import LEVELS, choose_levels
from hasse.index.bounds.query_tables import GROUP, tables_of
from hasse.index.types import Orientation
from tests.index.samples import embeddings, grid

BOUNDED = [Orientation.QUERY_GENERAL, Orientation.STORED_GENERAL]


@pytest.mark.parametrize("orientation", BOUNDED)
@pytest.mark.parametrize("dimension", [1, 8, 33])
def test_table_entries_never_exceed_the_squared_gap(
    orientation: Orientation, dimension: int
) -> None:
    rng = np.random.default_rng(dimension)
    for make in (embeddings, grid):
        points, queries = make(rng, 200, dimension), make(rng, 5, dimension)
        levels, shares = choose_levels(points, points.max(0), orientation)
        tables = tables_of(queries, levels, shares, orientation)
        for b, query in enumerate(queries):
            groups = tables.shifts.shape[1]
            assert tables.cumulative[b, groups - 1] > 0.96 or tables.cumulative[b, -1] == 0
            adding = tables.order[b, :groups][tables.entries[b].any(2)]
            assert len(set(adding.tolist())) == len(adding)
            unit = Fraction(float(tables.units[b]))
            for place, j in enumerate(tables.order[b, :groups].reshape(-1).tolist()):
                group, g = divmod(place, GROUP)
                for level in range(LEVELS):
                    gap = Fraction(float(query[j])) - Fraction(float(levels[j, level]))
                    gap = max(
                        gap if orientation is Orientation.QUERY_GENERAL else -gap, Fraction(0)
                    )
                    entry = int(tables.entries[b, group, g, level]) << int(tables.shifts[b, group])
                    assert entry * unit <= gap**2
