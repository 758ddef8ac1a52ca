"""A table, the machine it was measured on, and whether every promise in it was kept."""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Line:
    """One figure: what it is, what came out, what was promised and whether that was kept."""

    what: str
    measured: str
    promised: str = ""
    kept: bool = True


def machine() -> str:
    """Return the processor, its cores, how busy they are, and the Python."""
    cpu = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    return (
        f"{cpu}, {len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f} at the start, "
        f"Python {platform.python_version()}"
    )


def megabytes(size: float) -> str:
    """Return a number of bytes."""
    return f"{size / 1e6:,.0f} MB"


def milliseconds(seconds: float) -> str:
    """Return a short time."""
    return f"{seconds * 1e3:,.2f} ms"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a markdown table whose columns line up as text."""
    columns = list(zip(heads, *rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    lines = [heads, ["-" * width for width in widths], *rows]
    return "\n".join(
        "| " + " | ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)) + " |"
        for line in lines
    )


def lines_table(lines: Sequence[Line]) -> str:
    """Return figures beside what was promised of them."""
    rows = [
        (line.what, line.measured, f"{line.promised}{'' if line.kept else ' (BROKEN)'}")
        for line in lines
    ]
    return table(("", "measured", "promised"), rows)


def finish(title: str, lines: Sequence[Line], at: str) -> None:
    """Print a table; end the program with 1 when a promise was not kept."""
    print(f"\n{title}\n{at}\n\n{lines_table(lines)}", flush=True)
    if not all(line.kept for line in lines):
        raise SystemExit(1)


def parser_of(document: str | None) -> argparse.ArgumentParser:
    """Return a parser of options described by the first line of a program's docstring."""
    return argparse.ArgumentParser(description=(document or "").partition("\n")[0])


def options_of(document: str | None, **defaults: float) -> argparse.Namespace:
    """Read the command line of a program that takes FOLDER, and a number for each default."""
    parser = parser_of(document)
    parser.add_argument("folder", type=Path)
    for name, value in defaults.items():
        parser.add_argument(f"--{name}", type=type(value), default=value)
    return parser.parse_args()
