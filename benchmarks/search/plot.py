"""Growth with rows, drawn."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.search.report import DIRECTIONS
from benchmarks.search.trial import Trial
from index.types import Kind

_OURS, _OTHERS = ("o", "-", 2.2), ("s", "--", 1.2)


def draw(trials: Sequence[Trial], path: Path) -> None:
    """Write an SVG: the median of one query and of one in a batch, over rows, per direction.

    Raises:
        ImportError: matplotlib is not installed.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    kinds: list[Kind] = list(dict.fromkeys(trial.kind for trial in trials))
    # A fixed salt and no date: the same figures give the same bytes.
    with rc_context({"svg.hashsalt": "hasse", "font.size": 9}):
        figure = Figure(figsize=(10, 4.2 * len(kinds)), layout="constrained")
        axes = figure.subplots(len(kinds), 2, squeeze=False, sharex=True, sharey="row")
        for across, kind in zip(axes, kinds, strict=True):
            own = sorted((t for t in trials if t.kind == kind), key=lambda trial: trial.rows)
            names = dict.fromkeys(row.contender for trial in own for row in trial.table)
            for axis, batched in zip(across, (False, True), strict=True):
                for name in names:
                    marker, line, width = _OURS if name.startswith("hasse") else _OTHERS
                    at, milliseconds = zip(*_line(own, name, batched), strict=True)
                    axis.plot(at, milliseconds, line, marker=marker, lw=width, ms=4, label=name)
                axis.set(xscale="log", yscale="log", xlabel="rows")
                axis.set_title(f"{DIRECTIONS[kind]}, {'in batches' if batched else 'one query'}")
                axis.grid(visible=True, which="both", lw=0.3)
            across[0].set_ylabel("milliseconds a query, median")
            across[0].legend(fontsize=7)
        figure.savefig(path, metadata={"Date": None})


def _line(trials: Sequence[Trial], name: str, batched: bool) -> list[tuple[int, float]]:
    return [
        (trial.rows, 1e3 * (row.batched if batched else row.single).median)
        for trial in trials
        for row in trial.table
        if row.contender == name
    ]
