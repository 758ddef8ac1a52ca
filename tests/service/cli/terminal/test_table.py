"""Tables: numbers to the right, cells as they are, nothing cut where no terminal is."""

from __future__ import annotations

import pytest

from service.cli.terminal.table import print_table


def test_numbers_stand_to_the_right_and_words_to_the_left(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = [("cat", "1,000", "-0.5", "1"), ("a dog", "7", "12.25", "-")]
    print_table(("name", "count", "gap", "mixed"), rows)
    assert capsys.readouterr().out.splitlines() == [
        "name   count    gap  mixed",
        "cat    1,000   -0.5  1",
        "a dog      7  12.25  -",
    ]


def test_cells_are_shown_as_they_are_and_whole(capsys: pytest.CaptureFixture[str]) -> None:
    cell = "[bold]a dog[/bold] :smile: " + "runs " * 500 + "home"
    print_table(("", ""), [(cell, "x")])
    assert capsys.readouterr().out == f"{cell}  x\n"
