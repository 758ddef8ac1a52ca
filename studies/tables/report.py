"""Parts that the programs of this room print alike."""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hasse.lab.training.run import Progress
from hasse.service.cli.terminal.table import print_table
from hasse.studies.bootstrap import half_width

Values = NDArray[np.float64]


def parser_of(document: str | None) -> argparse.ArgumentParser:
    """Return a parser of options described by the first line of a program's docstring."""
    return argparse.ArgumentParser(description=(document or "").split("\n", 1)[0])


def report_of(name: str) -> Callable[[Progress[Any]], None]:
    """Return a report that prints the measurement of each epoch on standard error."""

    def report(now: Progress[Any]) -> None:
        if now.measurement is not None:
            say(f"{name}: epoch {now.epoch + 1}, {now.measurement.summary}")

    return report


def say(line: str) -> None:
    """Print a line on standard error at once."""
    print(line, file=sys.stderr, flush=True)


def silent(done: int, total: int) -> None:
    """Show no progress."""


def machine() -> str:
    """Return what computes here."""
    return f"torch {torch.__version__}, {torch.get_num_threads()} threads, {platform.machine()}"


def percent(values: Values, *, signed: bool = False) -> str:
    """Return the mean of shares in percent and, of several, half of its 95 % interval: (n,)."""
    mean = 100 * float(values.mean())
    shown = f"{mean:+.1f}" if signed else f"{mean:.1f}"
    return shown + (f" ± {100 * half_width(values):.1f}" if len(values) > 1 else "")


def markdown(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def ranged(values: Sequence[float]) -> str:
    """Return the mean of several values with the least and the greatest."""
    return f"{np.mean(values):.1f} ({min(values):.1f} to {max(values):.1f})"


def show(title: str, heads: Sequence[str], rows: Mapping[str, Sequence[Values]]) -> None:
    """Print a table of mean shares in percent; none where nothing could be measured."""
    if rows:
        print()
        cells = [(name, *(percent(values) for values in row)) for name, row in rows.items()]
        print_table((title, *heads), cells)
