from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.search import trial
from benchmarks.search.__main__ import main
from benchmarks.search.contenders import (
    Flat,
    Graph,
    Panorama,
    least,
    recall,
)
from tests.benchmarks.samples import points_folder

TINY = ["--queries=8", "--checked=4", "--batch=4", "--seconds=0.01", "--threads=1"]
OURS = ["hasse exact", "hasse certified", "hasse fast"]
EVERYONE = [*OURS, *(one.name for one in (Flat, Panorama, Graph))]


@pytest.mark.slow
def test_one_command_measures_everyone_in_both_directions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "READ_BYTES", 1 << 20)
    monkeypatch.setattr(trial, "GRAPH_ROWS", 500)
    points, out = points_folder(tmp_path / "points"), tmp_path / "out"
    assert main([f"--points={points}", f"--out={out}", *TINY, "--rows", "400", "600"]) == 0
    printed = capsys.readouterr().out
    assert printed == (out / "search.md").read_text()
    assert [path.name for path in out.iterdir()] == ["search.md"]
    trials = re.split(r"^### (?=Images|Captions)", printed, flags=re.M)[1:]
    names = [each.partition("\n")[0] for each in trials]
    assert names == [
        f"{kind}: {rows} x 64"
        for rows in (400, 600)
        for kind in ("Images by caption", "Captions by image")
    ]
    for each, everyone in zip(trials, 2 * [EVERYONE] + 2 * [EVERYONE[:-1]], strict=True):
        rows = [
            [cell.strip() for cell in line.strip("|").split("|")]
            for line in each.splitlines()
            if line.startswith("| ") and "---" not in line
        ]
        assert [row[0] for row in rows] == ["contender", *everyone]
        assert all(0 < float(row[1]) <= float(row[2]) for row in rows[1:])
        assert [float(row[7]) for row in rows[1:3]] == [1, 1]
        assert "`certified` equals `exact` in 8 of 8 queries, all proved" in each
    assert printed.count(f"{Graph.name}: not built over more than 500 rows") == 2


def test_sizes_that_the_disk_cannot_hold_are_left_out_and_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    points = points_folder(tmp_path / "points")
    out = tmp_path / "out"
    assert main([f"--points={points}", f"--out={out}", *TINY, "--rows", str(10**15)]) == 0
    assert "Left out: 1,000,000,000,000,000 rows: they need" in capsys.readouterr().out


def test_without_points_it_says_what_to_give(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([f"--points={tmp_path / 'none'}"]) == 1
    message = capsys.readouterr().err
    assert "holds no points" in message
    assert "encode some with --model and --dataset" in message


def test_a_process_that_serves_is_measured_without_what_only_contenders_need() -> None:
    code = "import sys, benchmarks.search.processes; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("needed", [1, 2, 7, 63, 64, 100])
def test_the_least_effort_that_suffices_is_found(needed: int) -> None:
    found = least(lambda effort: effort >= needed, 1, 100)
    assert found is not None
    assert needed <= found <= needed + needed // 8
    assert least(lambda effort: effort >= needed, 1, needed - 1) is None or needed == 1


def test_recall_is_the_share_of_true_ids_found() -> None:
    truth = np.array([[1, 2], [3, 4]])
    assert recall(np.array([[2, 1], [3, 9]]), truth) == 0.75
    assert recall(np.array([[-1, -1], [5, 6]]), truth) == 0
