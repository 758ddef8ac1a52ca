from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.search import rivals, trial
from benchmarks.search.__main__ import main
from benchmarks.search.contenders import least, recall
from benchmarks.search.rivals import CODES, HNSW, Flat, Panorama
from tests.benchmarks.samples import points_folder

TINY = ["--queries=8", "--checked=4", "--seconds=0.01", "--threads=1", "--batches", "4", "8"]
# What each of them answers; nothing but the order can be compared with ours.
OURS = {
    "hasse exact": "the order, exactly",
    "hasse certified": "the order, exactly",
    "hasse fast": "the order",
}
FLAT = {Flat.name: "inner product, exactly", Panorama.name: "distance, exactly"}
GRAPH = {HNSW: "inner product, recall 1", f"{HNSW}, re-ranked": "the order, recall 1"}
CODED = {CODES: "inner product, recall 0.999", f"{CODES}, re-ranked": "the order, recall 0.999"}


@pytest.mark.slow
def test_one_command_measures_everyone_in_both_directions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "READ_BYTES", 1 << 20)
    monkeypatch.setattr(rivals, "GRAPH_ROWS", 500)
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
    for each, others in zip(trials, 2 * [FLAT | GRAPH | CODED] + 2 * [FLAT | CODED], strict=True):
        rows = [
            [cell.strip() for cell in line.strip("|").split("|")]
            for line in each.split("\n\n")[1].splitlines()
            if "---" not in line
        ]
        assert {row[0]: row[1] for row in rows[1:]} == OURS | others
        assert rows[0][2::2] == ["one query", "batch of 4", "batch of 8", "recall"]
        fastest = [min(float(row[at]) for row in rows[4:6]) for at in (2, 4, 6)]
        for row in rows[1:]:
            for least_of, at in zip(fastest, (2, 4, 6), strict=True):
                assert float(row[at + 1].removesuffix(" x")) == pytest.approx(
                    least_of / float(row[at]), rel=0.1
                )
        recalls = {row[0]: float(row[8]) for row in rows[1:]}
        assert recalls["hasse exact"] == recalls["hasse certified"] == 1
        assert all(recalls[name] >= 0.999 for name in others if name.endswith("re-ranked"))
        assert "`certified` equals `exact` in 8 of 8 queries, all proved" in each
    assert "OMP_NUM_THREADS=1" in printed
    assert printed.count(f"{HNSW}: not built over more than 500 rows") == 2


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
