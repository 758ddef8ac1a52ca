"""The program that prints how time and memory grow with the rows."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from benchmarks import scaling
from benchmarks.search import processes
from tests.benchmarks.samples import points_folder


def test_figures_stand_with_the_exponent_of_their_growth() -> None:
    figures = {
        100: {"open": [0.02, 10.0], "search": [0.001, 0.0]},
        1000: {"open": [0.02, 100.0], "search": [0.01, 0.0]},
    }
    lines = scaling.grown(figures).splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert cells[0] == ["open", "20.00 ms", "20.00 ms (0.00)"]
    assert cells[1] == ["", "10 MB", "100 MB (1.00)"]
    assert cells[2] == ["search", "1.00 ms", "10.00 ms (1.00)"]
    assert cells[3] == ["", "0 MB", "0 MB"]


@pytest.mark.slow
def test_run_measures_every_step_and_goes_on_where_it_was_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def here(work: Any, *arguments: Any) -> Any:
        return work(*arguments)

    monkeypatch.setattr(processes, "alone", here)
    monkeypatch.setattr(scaling, "QUERIES", 4)
    points = points_folder(tmp_path / "points")
    given = [str(tmp_path / "scaling"), f"--points={points}", "--rows", "40"]
    scaling.main(given)
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    names = [line.split("|")[1].strip() for line in lines[2::2]]
    assert names == [
        "add all rows",
        "sync, nothing changed",
        "compact",
        "open",
        "compare checksums, behind searches",
        "search, certified",
        "search, each of 32",
        "add one row, beside searches",
        "search beside it",
    ]
    monkeypatch.setattr(scaling, "STEPS", {"open": lambda task: {"open": [math.pi, 1.0]}})
    scaling.main(given)
    assert "3.1 s" not in capsys.readouterr().out
    scaling.main([*given, "--steps", "open"])
    assert "3.1 s" in capsys.readouterr().out
