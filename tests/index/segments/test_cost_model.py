from __future__ import annotations

import pytest

from hasse.index.segments.cost_model import Costs
from hasse.index.types import Orientation

BOUNDED = [Orientation.QUERY_GENERAL, Orientation.STORED_GENERAL]


@pytest.mark.parametrize("orientation", BOUNDED)
@pytest.mark.parametrize("batch", [1, 32])
def test_costs_favor_a_scan_of_small_segments_and_bounds_of_large_ones(
    orientation: Orientation, batch: int
) -> None:
    ways = [
        Costs().favor_scan(orientation, rows, 1024, 128, batch, proved=True)
        for rows in (100, 1_000, 500_000, 5_000_000)
    ]
    assert ways == [True, True, False, False]


@pytest.mark.parametrize("orientation", BOUNDED)
def test_costs_favor_a_scan_of_larger_segments_by_a_batch_which_shares_it(
    orientation: Orientation,
) -> None:
    rows = list(range(100, 20_000, 100))
    single, batch = (
        sum(Costs().favor_scan(orientation, n, 1024, 128, size, proved=True) for n in rows)
        for size in (1, 32)
    )
    assert batch > single


def test_costs_favor_a_scan_when_nearly_all_rows_are_candidates() -> None:
    assert Costs().favor_scan(Orientation.QUERY_GENERAL, 20_000, 1024, 8000, 1, proved=True)
    assert not Costs().favor_scan(Orientation.QUERY_GENERAL, 20_000, 1024, 128, 1, proved=True)


@pytest.mark.parametrize("orientation", BOUNDED)
def test_costs_favor_a_scan_of_more_rows_with_fewer_coordinates(orientation: Orientation) -> None:
    assert Costs().favor_scan(orientation, 10_000, 64, 128, 1, proved=True)
    assert not Costs().favor_scan(orientation, 10_000, 1024, 128, 1, proved=True)


def test_costs_favor_bounds_on_large_segments_by_cosine_too() -> None:
    assert not Costs().favor_scan(Orientation.COSINE, 120_000, 384, 128, 1, proved=True)
    assert Costs().favor_scan(Orientation.COSINE, 2_000, 384, 128, 1, proved=True)
