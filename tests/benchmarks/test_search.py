from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.search.__main__ import main
from benchmarks.search.contenders import (
    Flat,
    Graph,
    Panorama,
    least,
    recall,
)
from tests.benchmarks.samples import points_folder

TINY = ["--queries=8", "--checked=4", "--batch=4", "--seconds=0.01", "--read-mb=1", "--threads=1"]
OURS = ["hasse exact", "hasse certified", "hasse fast"]
EVERYONE = [*OURS]
EVERYONE += [one.name for one in (Flat, Panorama, Graph)]


@pytest.mark.slow
def test_one_command_measures_everyone_in_both_directions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    points, out, work = points_folder(tmp_path / "points"), tmp_path / "out", tmp_path / "work"
    places = [f"--points={points}", f"--out={out}", f"--work={work}"]
    assert main([*places, *TINY, "--rows=400"]) == 0

    result = json.loads((out / "search.json").read_text())
    assert [trial["kind"] for trial in result["trials"]] == ["image", "caption"]
    for trial in result["trials"]:
        assert [row["contender"] for row in trial["table"]] == EVERYONE
        assert (trial["rows"], trial["compared"], trial["uncertified"]) == (400, 8, 0)
        for row in trial["table"]:
            assert 0 < row["single"]["median"] <= row["single"]["p95"]
            assert row["batched"]["samples"] >= 12
            if row["contender"] in OURS[:2]:
                assert row["recall"] == 1
        assert trial["bandwidth"] > 0
        assert trial["building"]["rows_per_second"] > 0
        assert trial["serving"]["resident_bytes"] > trial["serving"]["start_bytes"] > 0

    printed = capsys.readouterr().out
    assert printed == (out / "search.md").read_text()
    assert "Captions by image: 400 x 64" in printed
    assert "`certified` equals `exact` in 8 of 8 queries, all proved" in printed
    assert not list(work.iterdir())


@pytest.mark.slow
def test_graphs_that_would_take_hours_are_left_out_and_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    points = points_folder(tmp_path / "points")
    places = [f"--points={points}", f"--out={tmp_path / 'out'}", f"--work={tmp_path / 'work'}"]
    assert main([*places, *TINY, "--rows=600", "--kinds=image", "--graph-rows=500"]) == 0
    (trial,) = json.loads((tmp_path / "out" / "search.json").read_text())["trials"]
    assert [row["contender"] for row in trial["table"]] == EVERYONE[:-1]
    printed = capsys.readouterr().out
    assert f"{Graph.name}: not built over more than 500 rows" in printed


def test_sizes_that_the_disk_cannot_hold_are_left_out_and_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    points = points_folder(tmp_path / "points")
    places = [f"--points={points}", f"--out={tmp_path / 'out'}", f"--work={tmp_path / 'work'}"]
    assert main([*places, *TINY, "--rows", str(10**15), "--max-rows", str(10**16)]) == 0
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
