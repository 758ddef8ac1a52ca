from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hasse.index.search.top_k import TopK
from tests import oracle

values = st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0, 2.0]), max_size=40)


def add(best: TopK, ids: NDArray[np.int64], violations: NDArray[np.float32], queries: int) -> None:
    """Add the same rows for every query."""
    starts = np.arange(queries + 1) * len(ids)
    best.add(np.tile(ids, queries), starts, np.tile(violations, queries))


@settings(max_examples=50)
@given(
    values,
    st.integers(1, 12),
    st.sampled_from([0.0, 0.25, 1.0, np.inf]),
    st.lists(st.integers(0, 3), min_size=40, max_size=40),
)
def test_top_k_finds_the_best_rows_in_whatever_parts_they_are_added(
    violations: list[float], k: int, limit: float, parts: list[int]
) -> None:
    ids = np.arange(len(violations))[::-1].copy()
    single = np.array(violations, np.float32)
    belongs = np.array(parts[: len(violations)], np.int64)
    best = TopK(3, k, limit)
    for part in range(4):
        add(best, ids[belongs == part], single[belongs == part], 3)
        seen = belongs <= part
        found = oracle.best(single[seen], ids[seen], k, limit)
        worst = single[-1 - found[-1]] if len(found) == k else limit
        assert best.limits().tolist() == [worst] * 3
        for hits in best.hits():
            assert hits.ids.tolist() == found.tolist()
            assert hits.violations.tolist() == single[-1 - found].tolist()


def test_top_k_keeps_rows_by_query_and_ignores_nan() -> None:
    best = TopK(3, 2)
    violations = np.array([0.5, np.nan, 0.25, 0.75, 0.125], np.float32)
    best.add(np.array([10, 11, 12, 13, 14]), np.array([0, 2, 2, 5]), violations)
    assert [hits.ids.tolist() for hits in best.hits()] == [[10], [], [14, 12]]
    assert best.limits().tolist() == [np.inf, np.inf, 0.25]
