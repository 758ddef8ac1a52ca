from __future__ import annotations

import pytest

from hasse.service.http.bodies import parse_json


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("7.0", 7),
        ("70e-1", 7),
        ("-0.0", 0),
        ("9007199254740993.0", 2**53 + 1),
        ("9.223372036854775807e18", 2**63 - 1),
        ("1e308", 10**308),
    ],
)
def test_json_integer_with_a_point_is_that_integer_and_not_the_nearest_float(
    written: str, meant: int
) -> None:
    read = parse_json(written.encode())
    assert (read, type(read)) == (meant, int)


@pytest.mark.parametrize(
    "written", ["0.5", "9007199254740993.5", "1e-400", "1e-99999999999999999999", "1e999"]
)
def test_json_number_that_is_not_whole_stays_a_float(written: str) -> None:
    read = parse_json(written.encode())
    assert (read, type(read)) == (float(written), float)
