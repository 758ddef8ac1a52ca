from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hasse.index.kernels.candidates import Candidates

sets = st.lists(st.sets(st.integers(0, 30)), min_size=1, max_size=5)


def candidates(rows: list[set[int]]) -> Candidates:
    return Candidates.of([np.array(sorted(own), np.int64) for own in rows])


@settings(max_examples=50)
@given(sets, st.data())
def test_candidates_without_known_rows_are_the_difference_query_by_query(
    rows: list[set[int]], data: st.DataObject
) -> None:
    same = st.lists(st.sets(st.integers(0, 30)), min_size=len(rows), max_size=len(rows))
    known = data.draw(same)
    left = candidates(rows).without(candidates(known))
    wanted = [sorted(own - out) for own, out in zip(rows, known, strict=True)]
    assert [own.tolist() for own in left] == wanted
    assert left.counts.tolist() == [len(own) for own in wanted]
