"""Tables on standard output: fitted to a terminal, whole anywhere else."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from hasse.service.cli.terminal.output import one_line

# Wider than any row, so output to a file or another program is never cut.
UNLIMITED = 10_000


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows, under their column names if any; columns of numbers are right-aligned."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=UNLIMITED)
    table = Table(box=None, pad_edge=False, show_header=any(columns))
    for at, name in enumerate(columns):
        numeric = bool(rows) and all(_is_number(row[at]) for row in rows)
        table.add_column(
            name, justify="right" if numeric else "left", no_wrap=numeric, header_style="dim"
        )
    for row in rows:
        table.add_row(*(Text(one_line(cell)) for cell in row))  # captions are not markup
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        typer.echo(line.rstrip())


def _is_number(cell: str) -> bool:
    return cell.replace(",", "").replace(".", "", 1).lstrip("-").isdigit()
