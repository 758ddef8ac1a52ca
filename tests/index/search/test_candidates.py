from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from index.search.candidates import Chosen

sets = st.lists(st.sets(st.integers(0, 30)), min_size=1, max_size=5)


def chosen(rows: list[set[int]]) -> Chosen:
    return Chosen.of([np.array(sorted(own), np.int64) for own in rows])


@settings(max_examples=50)
@given(sets, st.data())
def test_without_what_is_known_is_the_difference_query_by_query(
    rows: list[set[int]], data: st.DataObject
) -> None:
    same = st.lists(st.sets(st.integers(0, 30)), min_size=len(rows), max_size=len(rows))
    known = data.draw(same)
    left = chosen(rows).without(chosen(known))
    wanted = [sorted(own - out) for own, out in zip(rows, known, strict=True)]
    assert [own.tolist() for own in left] == wanted
    assert left.counts.tolist() == [len(own) for own in wanted]


def test_the_same_rows_are_each_querys_own() -> None:
    alike = Chosen.alike(np.array([3, 5]), 3)
    assert [own.tolist() for own in alike] == [[3, 5]] * 3
    assert [own.tolist() for own in Chosen.alike(np.empty(0, np.int64), 2)] == [[], []]
