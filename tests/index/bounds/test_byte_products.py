from __future__ import annotations

import platform

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hasse.index.bounds import byte_products, nibble_scan
from hasse.index.bounds.query_tables import MAX_SUM
from hasse.index.types import Orientation
from tests.processors import printed

BOUNDED = [Orientation.QUERY_GENERAL, Orientation.STORED_GENERAL]


@settings(max_examples=60)
@given(
    orientation=st.sampled_from(BOUNDED),
    shape=st.tuples(st.sampled_from([1, 127, 128, 301]), st.sampled_from([1, 64, 100, 200])),
    queries=st.integers(1, 9),
    top=st.sampled_from([1, 20, 255]),
    shift=st.integers(0, 8),
    seed=st.integers(0, 10_000),
)
def test_sums_are_those_of_numpy_with_codes_up_to_127(
    orientation: Orientation, shape: tuple[int, int], queries: int, top: int, shift: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    codes, asked = (rng.integers(0, top + 1, (n, shape[1]), np.uint8) for n in (shape[0], queries))
    half = 64
    blocks = -(-shape[0] // (2 * half))
    sums = np.zeros((queries, blocks * 2 * half), np.uint16)
    byte_products.add_products(
        codes,
        byte_products.pad_queries(asked, orientation),
        orientation,
        shift,
        half,
        0,
        blocks,
        sums,
    )
    gaps = np.minimum(asked, 127).astype(np.int64)[:, None] - np.minimum(codes, 127)
    gaps = np.maximum(gaps if orientation is Orientation.QUERY_GENERAL else -gaps, 0)
    rows = range(blocks * 2 * half)
    places = [row - row % 128 + nibble_scan.place_of(row % 128, half) for row in rows]
    assert sorted(places) == list(rows)
    wanted = np.minimum(np.square(gaps).sum(2) >> shift, MAX_SUM)
    assert np.array_equal(sums[:, places[: shape[0]]], wanted)


@pytest.mark.parametrize("half", [64, 192, 4032])
def test_place_of_a_row_is_where_its_sum_is(half: int) -> None:
    rows = [nibble_scan.row_of(nibble_scan.place_of(row, half), half) for row in range(2 * half)]
    assert rows == list(range(2 * half))


@pytest.mark.parametrize("orientation", BOUNDED)
@pytest.mark.parametrize("top", [0, 3, 255])
def test_shift_leaves_room_for_common_sums_and_no_more(orientation: Orientation, top: int) -> None:
    rng = np.random.default_rng(top)
    codes, asked = (rng.integers(0, top + 1, (n, 512), np.uint8) for n in (700, 12))
    queries = byte_products.pad_queries(asked, orientation)
    shift = byte_products.shift_for(codes, queries, orientation)
    sums = np.zeros((12, 768), np.uint16)
    byte_products.add_products(codes, queries, orientation, shift, 384, 0, 1, sums)
    common = np.median(np.where(sums == MAX_SUM, MAX_SUM, sums), axis=1).max()
    assert common < MAX_SUM
    assert shift == 0 or common > MAX_SUM / 8


SETS = {"x86_64": ["+ssse3,+avx,+avx2", ""], "aarch64": ["+neon", ""]}


@pytest.mark.slow
@pytest.mark.parametrize("features", SETS.get(platform.machine(), [""]))
def test_sums_are_the_same_with_every_instruction_set(features: str) -> None:
    code = """
import numpy as np
from hasse.index.bounds import byte_products as products, nibble_scan
from hasse.index.types import Orientation
rng = np.random.default_rng(0)
codes, asked = (rng.integers(0, 256, (n, 100), np.uint8) for n in (128, 6))
for orientation in Orientation.QUERY_GENERAL, Orientation.STORED_GENERAL:
    sums = np.zeros((6, 128), np.uint16)
    queries = products.pad_queries(asked, orientation)
    products.add_products(codes, queries, int(orientation), 5, 64, 0, 1, sums)
    print([sums[:, nibble_scan.place_of(row, 64)].tolist() for row in range(128)])
"""
    assert printed(code, features) == printed(code)
