from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from index.hits import best, merge
from tests import oracle

values = st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0, 2.0]), max_size=40)


@settings(max_examples=50)
@given(values, st.integers(1, 12), st.lists(st.integers(0, 3), min_size=40, max_size=40))
def test_merging_the_hits_of_parts_gives_the_hits_of_the_whole(
    violations: list[float], k: int, parts: list[int]
) -> None:
    ids = np.arange(len(violations))[::-1].copy()
    single = np.array(violations, np.float32)
    belongs = np.array(parts[: len(violations)], np.int64)
    merged = merge((best(ids[belongs == part], single[belongs == part], k) for part in range(4)), k)
    assert merged.ids.tolist() == oracle.best(single, ids, k).tolist()


@settings(max_examples=50)
@given(values, st.integers(1, 12), st.sampled_from([0.0, 0.25, 1.0, 9.0]))
def test_the_best_are_sorted_by_violation_then_id_and_within_the_limit(
    violations: list[float], k: int, limit: float
) -> None:
    ids = np.arange(len(violations))[::-1].copy()
    hits = best(ids, np.array(violations, np.float32), k, limit)
    assert hits.ids.tolist() == oracle.best(violations, ids, k, limit).tolist()
    assert hits.violations.tolist() == sorted(hits.violations.tolist())
