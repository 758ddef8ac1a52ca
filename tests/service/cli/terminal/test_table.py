"""Tables: numbers right-aligned, cells unchanged, nothing cut outside a terminal."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hasse.service.cli.terminal.table import print_files, print_table


def test_print_table_right_aligns_columns_of_numbers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = [("cat", "1,000", "-0.5", "1"), ("a dog", "7", "12.25", "-")]
    print_table(("name", "count", "gap", "mixed"), rows)
    assert capsys.readouterr().out.splitlines() == [
        "name   count    gap  mixed",
        "cat    1,000   -0.5  1",
        "a dog      7  12.25  -",
    ]


def test_print_table_outside_a_terminal_prints_cells_whole_and_unchanged(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cell = "[bold]a dog[/bold] :smile: " + "runs " * 500 + "home"
    print_table(("", ""), [(cell, "x")])
    assert capsys.readouterr().out == f"{cell}  x\n"


def test_print_files_in_a_terminal_puts_texts_below_paths_that_open(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in {"FORCE_COLOR": "1", "COLUMNS": "30", "TERM": "xterm"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    here, away = tmp_path / "Oma's album" / "a.jpg", Path("/a.jpg")
    rows = [("1", "shows it", str(here), "runs " * 9), ("2", "may show it", str(away), "")]
    print_files(("rank", "verdict", "path", "text"), rows)
    printed = capsys.readouterr().out
    assert f"{here.as_uri()}\033\\" in printed
    plain = re.sub(r"\033(\]8;.*?\033\\|\[[\d;]*m)", "", printed)
    assert [line.rstrip() for line in plain.splitlines()] == [
        "rank  verdict      path",
        "   1  shows it     Oma's",
        "                   album/a.jpg",
        "                   runs runs …",
        "   2  may show it  /a.jpg",
    ]


def test_print_files_outside_a_terminal_prints_a_row_each(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_files(("rank", "path", "text"), [("1", "/a.jpg", "a dog")])
    assert capsys.readouterr().out == "rank  path    text\n   1  /a.jpg  a dog\n"
