from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import costs
from tests.benchmarks.samples import points_folder


def test_constants_and_both_ways_are_measured_for_each_kind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("index.segment.BOUNDS_FROM_BYTES", 1)
    monkeypatch.setattr(costs, "ROWS", (600, 1200))
    monkeypatch.setattr(costs, "_CALLS", 1)
    costs.main([str(points_folder(tmp_path / "points"))])
    constants, ways = capsys.readouterr().out.split("\n\n")
    assert [line.split()[:2] for line in constants.splitlines()[2:]] == [
        ["1,200", "image"],
        ["1,200", "caption"],
    ]
    assert len(ways.splitlines()) == 1 + 2 * 2 * 2
    assert {line.split()[-1] for line in ways.splitlines()[1:]} <= {"scan", "bounds"}
