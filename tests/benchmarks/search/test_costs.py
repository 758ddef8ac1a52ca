from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.search import costs
from tests.benchmarks.samples import points_folder


@pytest.mark.slow
def test_costs_prints_both_ways_and_the_constants_of_each_orientation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(costs, "ROWS", (600, 1200))
    monkeypatch.setattr(costs, "_CALLS", 1)
    costs.main([str(points_folder(tmp_path / "points"))])
    ways, constants = capsys.readouterr().out.split("\n\n")
    assert len(ways.splitlines()) == 2 + 3 * 2 * 2
    assert {line.split()[-1] for line in ways.splitlines()[2:]} <= {"scan", "bounds"}
    names = [line.split()[:2] for line in constants.splitlines()[1:]]
    assert names == [["image,", "order"], ["caption,", "order"], ["image,", "cosine"]]
