from __future__ import annotations

import platform

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hasse.index.bounds import nibble_scan
from hasse.index.bounds.quantizer import LEVELS, choose_levels, encode_block, half_block
from hasse.index.bounds.query_tables import GROUP, MAX_SUM, tables_of
from hasse.index.types import Orientation
from tests.index.samples import embeddings
from tests.processors import printed

BOUNDED = [Orientation.QUERY_GENERAL, Orientation.STORED_GENERAL]


@pytest.mark.parametrize("orientation", BOUNDED)
@pytest.mark.parametrize("dimension", [1, 8, 17, 130])
@pytest.mark.parametrize("rows", [60, 300])
def test_add_groups_sums_the_entries_of_each_row(
    orientation: Orientation, dimension: int, rows: int
) -> None:
    rng = np.random.default_rng(dimension)
    points = embeddings(rng, rows, dimension)
    levels, shares = choose_levels(points, points.max(0), orientation)
    half = half_block(rows)
    columns = np.empty((1, dimension, half), np.uint8)
    encode_block(points, 0, np.ascontiguousarray(levels.T), int(orientation), columns[0])
    tables = tables_of(embeddings(rng, 1, dimension), levels, shares, orientation)
    groups = -(-dimension // GROUP) // 2 + 1
    groups = min(groups, tables.shifts.shape[1])
    sums = np.full((1, 1, 2 * half), 7, np.uint16)
    parts = (tables.order, tables.entries, tables.shifts)
    nibble_scan.add_groups(columns, *parts, np.array([groups]), 0, 1, sums)
    places = np.concatenate([columns[0] & 15, columns[0] >> 4], axis=1)  # (N, 2H)
    wanted = np.zeros(2 * half, np.int64)
    for place, j in enumerate(tables.order[0].reshape(-1).tolist()):
        group, g = divmod(place, GROUP)
        if group < groups:
            added = tables.entries[0, group, g][places[j]].astype(np.int64)
            wanted += added << int(tables.shifts[0, group])
    at = [nibble_scan.row_of(place, half) for place in range(2 * half)]
    assert sorted(at) == list(range(2 * half))
    assert np.array_equal(sums[0, 0], np.minimum(wanted, MAX_SUM)[at])


def test_add_groups_saturates_at_the_largest_sum() -> None:
    columns = np.zeros((1, 800, 64), np.uint8)
    order = np.arange(808, dtype=np.int32).reshape(1, 101, 8) % 800
    entries = np.full((1, 100, 8, LEVELS), 255, np.uint8)
    sums = np.zeros((1, 1, 128), np.uint16)
    nibble_scan.add_groups(
        columns, order, entries, np.full((1, 100), 5), np.array([100]), 0, 1, sums
    )
    assert (sums == MAX_SUM).all()


@settings(max_examples=100)
@given(
    half=st.sampled_from([64, 192, 4032]),
    blocks=st.integers(1, 3),
    missing=st.integers(0, 60),
    spread=st.sampled_from([1, 5, 300, 70_000]),
    deleted=st.sampled_from([0.0, 0.2, 1.0]),
    count=st.integers(1, 300),
    seed=st.integers(0, 10_000),
)
@pytest.mark.slow
def test_smallest_finds_the_sums_that_a_sort_finds(
    half: int, blocks: int, missing: int, spread: int, deleted: float, count: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    rows = 2 * half * blocks - missing
    by_row = np.minimum(rng.integers(0, spread, 2 * half * blocks), MAX_SUM)
    sums = np.empty((blocks, 2 * half), np.uint16)
    for block in range(blocks):
        for place in range(2 * half):
            sums[block, place] = by_row[2 * half * block + nibble_scan.row_of(place, half)]
    excluded = rng.random(rows) < deleted if deleted else np.empty(0, bool)
    alive = np.flatnonzero(~excluded) if deleted else np.arange(rows)
    chosen = np.empty((2, count), np.int64)
    counts, rests = np.zeros(2, np.int64), np.zeros(2)
    nibble_scan.smallest(np.stack([sums + 1, sums]), rows, excluded, 1, 2, chosen, counts, rests)
    found, rest = chosen[1, : counts[1]], rests[1]
    assert np.isin(found, alive).all()
    assert (np.diff(found) > 0).all()
    assert len(found) == min(count, len(alive))
    ordered = np.sort(by_row[alive])
    assert np.array_equal(np.sort(by_row[found]), ordered[: len(found)])
    assert rest == (ordered[count] if count < len(alive) else np.inf)


def test_smallest_returns_the_next_sum_when_exactly_enough_rows_are_below_it() -> None:
    sums = np.full((1, 1, 128), 1000, np.uint16)
    sums[0, 0, :10] = 5
    chosen, counts, rests = np.empty((1, 10), np.int64), np.zeros(1, np.int64), np.zeros(1)
    nibble_scan.smallest(sums, 128, np.empty(0, bool), 0, 1, chosen, counts, rests)
    assert counts.tolist() == [10]
    assert rests.tolist() == [1000]


# The last one is what every processor can do.
SETS = {"x86_64": ["+ssse3,+avx,+avx2", "+ssse3", ""], "aarch64": ["+neon", ""]}


@pytest.mark.slow
@pytest.mark.parametrize("features", SETS.get(platform.machine(), [""]))
def test_add_groups_sums_the_same_with_every_instruction_set(features: str) -> None:
    code = """
import numpy as np
from hasse.index.bounds import nibble_scan
from hasse.index.bounds.quantizer import LEVELS
rng = np.random.default_rng(0)
columns = rng.integers(0, 256, (2, 24, 128), np.uint8)
order = np.concatenate([rng.permutation(24), np.zeros(8, int)]).astype(np.int32).reshape(1, 4, 8)
entries = rng.integers(0, 256, (1, 3, 8, LEVELS), np.uint8)
sums = np.zeros((1, 2, 256), np.uint16)
nibble_scan.add_groups(columns, order, entries, np.array([[3, 0, 1]]), np.array([3]), 0, 2, sums)
by_row = np.empty(512, np.int64)
for place in range(512):
    block = place // 256
    by_row[256 * block + nibble_scan.row_of(place % 256, 128)] = sums[0, block, place % 256]
print(nibble_scan._WIDTH, by_row.tolist())
"""
    here, other = printed(code), printed(code, features)
    assert other.split(" ", 1)[1] == here.split(" ", 1)[1]
