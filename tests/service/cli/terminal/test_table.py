"""Tables: numbers right-aligned, cells unchanged, nothing cut outside a terminal."""

from __future__ import annotations

import pytest

from hasse.service.cli.terminal.table import print_table


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
