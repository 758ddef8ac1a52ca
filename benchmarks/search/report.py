"""What a run showed, as text that is also markdown."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import faiss as _faiss

from benchmarks.report import Line, lines_table, machine, megabytes, table
from benchmarks.search.growth import Profile
from benchmarks.search.rivals import CODES, HNSW, Flat, Panorama
from benchmarks.search.trial import Row, Settings, Timing, Trial
from hasse.index.types import Kind

faiss: Any = _faiss

# Smaller collections fit into caches or take no time: nothing is promised about them.
FROM_ROWS = 100_000
MANY_ROWS = 1_000_000
DIRECTIONS: dict[Kind, str] = {"image": "images by caption", "caption": "captions by image"}
_PACKAGES = ("numpy", "numba", "faiss-cpu", "torch")
_CLOCKS = {"wall": "wall clock", "processor": "seconds of the processor: others used it too"}
# Of variables with these names, libraries read threads, instructions and ways to wait.
_ENVIRONMENT = ("FAISS_", "GOMP_", "KMP_", "MKL_", "NUMBA_", "OMP_", "OPENBLAS_")
_EXACT = (Flat.name, Panorama.name)  # of FAISS; the faster one, column by column, is the measure
_BESIDE = "beside exact"


def promises(trial: Trial) -> list[Line]:
    """Return what is promised of a trial of this size."""
    if trial.rows < FROM_ROWS:
        return []
    rows = {row.contender: row for row in trial.table}
    exact, certified, fast = (rows[f"hasse {mode}"] for mode in ("exact", "certified", "fast"))
    image, many = trial.kind == "image", trial.rows >= MANY_ROWS
    share = 100 * exact.bandwidth_share
    lines = [_at_least("`exact`, one query, share of the memory's bandwidth", share, 50, " %")]
    if others := [row for name, row in rows.items() if name in _EXACT]:
        beside = "beside the fastest exact search of FAISS"
        alone = _least_median([row.single for row in others]) / certified.single.median
        lines.append(_at_least(f"`certified`, one query, {beside}", alone, 2, " x"))
        for size, timing in certified.batched.items():
            together = _least_median([row.batched[size] for row in others]) / timing.median
            what = f"`certified`, batches of {size}, {beside}"
            lines.append(_at_least(what, together, 1.5 if image else 0.8, " x"))
    lines.append(_at_least("`fast`, recall", fast.recall, 0.99 if image else 0.75))
    for name in (f"{HNSW}, re-ranked", f"{CODES}, re-ranked"):
        if name in rows:
            ratio = rows[name].single.median / certified.single.median
            lines.append(_at_least(f"`certified`, one query, beside {name}", ratio, 1, " x"))
    if many:
        read = 100 * certified.bytes_per_query / (4 * trial.rows * trial.dimension)
        rested = trial.serving.rested_bytes / trial.serving.code_bytes
        what = "serving, resident memory when points are given back, over the codes"
        lines += [
            _at_most("`certified`, bytes read of a float32 scan's", read, 6 if image else 15, " %"),
            _at_most(what, rested, 1.5, " x"),
        ]
    return lines


def _least_median(timings: Sequence[Timing]) -> float:
    return min(timing.median for timing in timings)


def _at_least(what: str, measured: float, target: float, unit: str = "") -> Line:
    return Line(what, f"{measured:.3g}{unit}", f"≥ {target:g}{unit}", measured >= target)


def _at_most(what: str, measured: float, target: float, unit: str) -> Line:
    return Line(what, f"{measured:.3g}{unit}", f"≤ {target:g}{unit}", measured <= target)


@dataclass(slots=True)
class Report:
    """One run of the benchmark."""

    source: str
    command: str
    settings: Settings
    profiles: dict[Kind, dict[str, Profile]]
    trials: list[Trial]
    left_out: list[str]

    def markdown(self) -> str:
        """Return everything that was seen so far."""
        parts = [self._head(), *(self._profiles(kind) for kind in self.profiles)]
        parts += [_trial(trial) for trial in self.trials]
        parts += [f"Left out: {reason}." for reason in self.left_out]
        return "\n\n".join(parts) + "\n"

    def _head(self) -> str:
        settings = self.settings
        threads = "1 thread" if settings.threads == 1 else f"{settings.threads} threads"
        installed = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
        return (
            f"`{self.command}`\n\n"
            f"{self.source}. {settings.k} hits, {threads}, contenders in turns of one run, "
            f"{_CLOCKS[settings.clock]}, medians over {settings.queries} queries. {machine()}; "
            f"{installed}; FAISS's instructions {_instructions()}; {_environment()}; "
            f"{datetime.now(UTC):%Y-%m-%d}."
        )

    def _profiles(self, kind: Kind) -> str:
        heads = (
            "rows",
            "number",
            "length",
            "coordinates near 0",
            "squared length in the heaviest eighth",
            "1st violation",
            "10th",
            "100th",
            "median",
        )
        rows = [
            [name, f"{p.rows:,}", f"{p.norm:.3f}", f"{p.small:.1%}", f"{p.heavy:.1%}"]
            + [f"{value:.3f}" for value in (p.first, p.tenth, p.hundredth, p.median)]
            for name, p in self.profiles[kind].items()
        ]
        return f"### Grown rows beside real ones: {DIRECTIONS[kind]}\n\n{table(heads, rows)}"


def _instructions() -> str:
    levels = getattr(faiss, "SIMDConfig", None)
    return str(levels.get_level_name() if levels else faiss.get_compile_options())


def _environment() -> str:
    given = (f"{name}={os.environ[name]}" for name in sorted(os.environ) if _is_read(name))
    return ", ".join(given) or "no variables that set threads or instructions"


def _is_read(name: str) -> bool:
    return name.startswith(_ENVIRONMENT)


def _trial(trial: Trial) -> str:
    building, serving = trial.building, trial.serving
    unproved = f", {trial.uncertified} NOT PROVED" if trial.uncertified else ", all proved"
    parts = [
        f"### {DIRECTIONS[trial.kind].capitalize()}: {trial.rows:,} x {trial.dimension}",
        _times_table(trial.table),
        f"Milliseconds a query. *{_BESIDE.capitalize()}*: the time of the fastest exact search of "
        "FAISS, column by column. *Recall*: share of the exact hits of the order.",
        *(f"{name}: {reason}." for name, reason in trial.absent.items()),
        _work_table(trial.table),
        f"`certified` equals `exact` in {trial.compared} of {trial.compared} queries{unproved}, "
        f"and {trial.checked} answers equal numpy's. The 10th violation is {trial.tenth:.3f}. "
        f"Memory reads at {trial.bandwidth / 1e9:.1f} GB/s. Plans: "
        + "; ".join(f"{mode}: {plan}" for mode, plan in trial.plans.items())
        + f". Built at {building.rows_per_second:,.0f} rows/s in {megabytes(building.peak_bytes)}. "
        f"Served from {megabytes(serving.resident_bytes)} of resident memory, "
        f"{megabytes(serving.rested_bytes)} when the points that were read are given back: "
        f"{megabytes(serving.code_bytes)} are codes, {megabytes(serving.anonymous_bytes)} no "
        f"files, and {megabytes(serving.start_bytes)} there before the index is opened.",
    ]
    if promised := promises(trial):
        parts.append(lines_table(promised))
    return "\n\n".join(parts)


def _times_table(rows: Sequence[Row]) -> str:
    sizes = rows[0].batched
    heads = ["contender", "answers", "one query", _BESIDE]
    for size in sizes:
        heads += [f"batch of {size}", _BESIDE]
    exact = [row for row in rows if row.contender in _EXACT]
    lines = []
    for row in rows:
        line = [row.contender, row.question]
        line += _beside(row.single, [other.single for other in exact])
        for size in sizes:
            line += _beside(row.batched[size], [other.batched[size] for other in exact])
        lines.append([*line, f"{row.recall:.3f}"])
    return table([*heads, "recall"], lines)


def _beside(timing: Timing, exact: Sequence[Timing]) -> list[str]:
    ratio = f"{_least_median(exact) / timing.median:.2g} x" if exact else ""
    return [_figure(1e3 * timing.median), ratio]


def _work_table(rows: Sequence[Row]) -> str:
    heads = ("contender", "p95, ms", "MB read", "of bandwidth", "re-scored", "build, s", "setting")
    lines = [
        [
            row.contender,
            _figure(1e3 * row.single.p95),
            _figure(row.bytes_per_query / 1e6),
            "" if math.isnan(row.bandwidth_share) else f"{row.bandwidth_share:.0%}",
            "" if math.isnan(row.rescored) else f"{row.rescored:.3%}",
            f"{row.build_seconds:,.0f}" if row.build_seconds else "",
            row.setting,
        ]
        for row in rows
    ]
    return table(heads, lines)


def _figure(value: float) -> str:
    if math.isnan(value):
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
