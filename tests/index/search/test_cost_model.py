from __future__ import annotations

import pytest

from index.search.cost_model import is_scanned
from index.types import Form

BOUNDED = [Form.QUERY_ABOVE, Form.STORED_ABOVE]


@pytest.mark.parametrize("form", BOUNDED)
@pytest.mark.parametrize("batch", [1, 32])
def test_small_segments_are_scanned_and_large_ones_bounded(form: Form, batch: int) -> None:
    ways = [
        is_scanned(form, rows, 1024, 128, batch, proved=True)
        for rows in (100, 1_000, 500_000, 5_000_000)
    ]
    assert ways == [True, True, False, False]


@pytest.mark.parametrize("form", BOUNDED)
def test_a_batch_shares_a_scan_so_it_is_worth_it_for_longer(form: Form) -> None:
    rows = list(range(1000, 100_000, 1000))
    single, batch = (
        sum(is_scanned(form, n, 1024, 128, size, proved=True) for n in rows) for size in (1, 32)
    )
    assert batch > single


def test_a_segment_is_scanned_when_nearly_all_of_it_would_be_proposed() -> None:
    assert is_scanned(Form.QUERY_ABOVE, 20_000, 1024, 4000, 1, proved=True)
    assert not is_scanned(Form.QUERY_ABOVE, 20_000, 1024, 128, 1, proved=True)


@pytest.mark.parametrize("form", BOUNDED)
def test_points_of_few_coordinates_are_scanned_for_longer(form: Form) -> None:
    assert is_scanned(form, 10_000, 64, 128, 1, proved=True)
    assert not is_scanned(form, 10_000, 1024, 128, 1, proved=True)


def test_rows_are_never_bounded_where_there_is_no_bound() -> None:
    assert is_scanned(Form.COSINE, 10_000_000, 1024, 128, 1, proved=True)
    assert not is_scanned(Form.COSINE, 10_000_000, 1024, 128, 1, proved=False)
