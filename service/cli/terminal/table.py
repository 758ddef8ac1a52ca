"""Prints tables on standard output: fitted to a terminal, not cut anywhere else."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from hasse.service.cli.terminal.output import one_line

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

# Wider than any row, so output to a file or another program is never cut.
UNLIMITED = 10_000


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows, under their column names if any; columns of numbers are right-aligned."""
    from rich.text import Text

    table = _table(columns, rows)
    for row in rows:
        table.add_row(*(Text(one_line(cell)) for cell in row))  # captions are not markup
    _print(_console(), table)


def print_files(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows that end with a path and a text.

    In a terminal, a path is relative to the current folder, and a click opens it. The text is below
    its path, cut to one line.
    """
    console = _console()
    if not console.is_terminal:
        print_table(columns, rows)
        return
    from rich.console import Group
    from rich.text import Text

    table = _table(columns[:-1], [row[:-1] for row in rows])
    for *cells, path, text in rows:
        link = f"link {Path(path).as_uri()}" if Path(path).is_absolute() else ""
        file: list[RenderableType] = [Text(one_line(_relative(path)), link, overflow="fold")]
        if text:
            file.append(Text(one_line(text), "dim", no_wrap=True, overflow="ellipsis"))
        table.add_row(*(Text(one_line(cell), no_wrap=True) for cell in cells), Group(*file))
    _print(console, table)


def _console() -> Console:
    from rich.console import Console

    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=UNLIMITED)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Return a table without rows, with a column for each name."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_header=any(columns))
    for at, name in enumerate(columns):
        numeric = bool(rows) and all(_is_number(row[at]) for row in rows)
        table.add_column(
            name, justify="right" if numeric else "left", no_wrap=numeric, header_style="dim"
        )
    return table


def _print(console: Console, table: Table) -> None:
    with console.capture() as capture:
        console.print(table)
    for line in capture.get().splitlines():
        typer.echo(line.rstrip())


def _relative(path: str) -> str:
    """Return a path relative to the current folder; a path outside of it unchanged."""
    return path.removeprefix(f"{Path.cwd()}{os.sep}")


def _is_number(cell: str) -> bool:
    return cell.replace(",", "").replace(".", "", 1).lstrip("-").isdigit()
