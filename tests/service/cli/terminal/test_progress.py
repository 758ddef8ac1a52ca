"""Progress: quiet for quick work, whole lines outside a terminal, a bar on one."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

from hasse.service.cli.terminal.progress import LineProgress, progress


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_progress_of_quick_work_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("pictures") as report:
        for done in range(10):
            report(done + 1, 10)
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


def test_line_progress_prints_a_few_lines_and_the_last_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    clock = Clock()
    report = LineProgress("pictures", clock)
    for done in range(1, 2001):
        clock.now += 0.01
        report(done, 2000)
    captured = capsys.readouterr()
    lines = captured.err.splitlines()
    assert captured.out == ""
    assert lines[0] == "pictures: 200 of 2,000 (10%)"
    assert lines[-1] == "pictures: 2,000 of 2,000 (100%)"
    assert 3 <= len(lines) <= 6


def test_line_progress_prints_remark_and_share_of_a_known_total(
    capsys: pytest.CaptureFixture[str],
) -> None:
    clock = Clock()
    report = LineProgress("learning", clock)
    for done, total, remark in ((5, 10, "loss 0.5"), (10, 0, ""), (10, 10, "loss 0.4")):
        clock.now += 10
        report(done, total, remark)
    assert capsys.readouterr().err.splitlines() == [
        "learning: 5 of 10 (50%), loss 0.5",
        "learning: 10 of 0",
        "learning: 10 of 10 (100%), loss 0.4",
    ]


def test_progress_silent_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("learning", silent=True) as report:
        assert not isinstance(report, LineProgress)
        report(1, 2, "loss 0.5")
    assert capsys.readouterr().err == ""


def on_a_terminal(program: str) -> tuple[bytes, str]:
    """Run a program with a terminal for its errors; return both of its outputs."""
    ours, theirs = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=theirs,
        env=os.environ | {"TERM": "xterm-256color", "COLUMNS": "100"},
        check=True,
        timeout=120,
    )
    os.close(theirs)
    shown = os.read(ours, 100_000).decode()
    os.close(ours)
    return done.stdout, shown


@pytest.mark.torch
def test_tell_and_report_of_an_epoch_print_above_the_bar() -> None:
    _, shown = on_a_terminal(
        "from hasse.lab.training.run import Progress\n"
        "from hasse.lab.commands.training_report import training_report\n"
        "from hasse.service.cli.terminal.progress import progress, tell\n"
        "with progress('learning') as report:\n"
        "    report(1, 2)\n"
        "    tell('a first line')\n"
        "    training_report(report, 3, str)(Progress(0, 2, 2, 0.5, 'half right'))\n"
    )
    for line in ("a first line", "epoch 1 of 3"):
        before, after = shown.split(line)
        assert before.endswith("\x1b[2K")  # the bar was wiped from the line first
        assert "learning" not in after.splitlines()[0]


def test_progress_on_a_terminal_shows_a_bar_on_standard_error() -> None:
    out, shown = on_a_terminal(
        "from hasse.service.cli.terminal.progress import progress\n"
        "with progress('drawing') as report:\n"
        "    for done in range(5):\n"
        "        report(done + 1, 5, 'a scene')\n"
    )
    assert out == b""
    assert "drawing, a scene" in shown
    assert "/5" in shown
