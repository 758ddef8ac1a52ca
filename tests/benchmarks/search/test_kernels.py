from __future__ import annotations

from benchmarks.search.kernels import measured


def test_kernels_agree_with_plain_ones_and_each_has_a_line() -> None:
    lines = measured(rows=300, chosen=40).splitlines()
    assert [line.split("|")[1].strip() for line in lines[2:]] == [
        "half bytes looked up",
        "gaps of bytes",
    ]
    assert all(line.rstrip(" |").endswith(" x") for line in lines[2:])
