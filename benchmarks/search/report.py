"""What a run showed, as text that is also markdown."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import faiss as _faiss

from benchmarks.report import Line, lines_table, machine, megabytes, table
from benchmarks.search.contenders import Flat, Graph
from benchmarks.search.growth import Profile
from benchmarks.search.trial import Row, Settings, Trial
from hasse.index.types import Kind

faiss: Any = _faiss

# Smaller collections fit into caches or take no time: nothing is promised about them.
FROM_ROWS = 100_000
MANY_ROWS = 1_000_000
DIRECTIONS: dict[Kind, str] = {"image": "images by caption", "caption": "captions by image"}
_PACKAGES = ("numpy", "numba", "faiss-cpu", "torch")
_CLOCKS = {"wall": "wall clock", "processor": "seconds of the processor: others used it too"}
_HEADS = (
    "contender",
    "one query, ms",
    "p95",
    "beside flat",
    "queries/s",
    "batch, ms/query",
    "beside flat",
    "recall",
    "MB read",
    "of bandwidth",
    "re-scored",
    "build, s",
    "setting",
)


def promises(trial: Trial) -> list[Line]:
    """Return what is promised of a trial of this size."""
    if trial.rows < FROM_ROWS:
        return []
    rows = {row.contender: row for row in trial.table}
    exact, certified, fast = (rows[f"hasse {mode}"] for mode in ("exact", "certified", "fast"))
    flat, graph, image = rows.get(Flat.name), rows.get(Graph.name), trial.kind == "image"
    share = 100 * exact.bandwidth_share
    lines = [_at_least("`exact`, one query, share of the memory's bandwidth", share, 80, " %")]
    if flat is not None:
        alone = flat.single.median / certified.single.median
        together = flat.batched.median / certified.batched.median
        beside = "beside `faiss.IndexFlatIP`"
        lines += [
            _at_least(f"`certified`, one query, {beside}", alone, 15 if image else 8, " x"),
            _at_least(f"`certified`, batches, {beside}", together, 2, " x"),
        ]
    lines.append(_at_least("`fast`, recall", fast.recall, 0.99))
    if graph is not None:
        ratio, name = graph.single.median / fast.single.median, f"{Graph.name} of the same recall"
        lines.append(_at_least(f"`fast`, one query, beside {name}", ratio, 1, " x"))
    if trial.rows >= MANY_ROWS:
        read = 100 * certified.bytes_per_query / (4 * trial.rows * trial.dimension)
        rested = trial.serving.rested_bytes / trial.serving.code_bytes
        what = "serving, resident memory when points are given back, over the codes"
        lines += [
            _at_most("`certified`, bytes read of a float32 scan's", read, 6 if image else 15, " %"),
            _at_most(what, rested, 1.5, " x"),
        ]
    return lines


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
            f"{installed}, FAISS's instructions {faiss.SIMDConfig.get_level_name()}; "
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


def _trial(trial: Trial) -> str:
    flat = next((row for row in trial.table if row.contender == Flat.name), None)
    building, serving = trial.building, trial.serving
    unproved = f", {trial.uncertified} NOT PROVED" if trial.uncertified else ", all proved"
    parts = [
        f"### {DIRECTIONS[trial.kind].capitalize()}: {trial.rows:,} x {trial.dimension}",
        table(_HEADS, [_cells(row, flat) for row in trial.table]),
        f"`certified` equals `exact` in {trial.compared} of {trial.compared} queries{unproved}, "
        f"and {trial.checked} answers equal numpy's. The 10th violation is {trial.tenth:.3f}. "
        f"Memory reads at {trial.bandwidth / 1e9:.1f} GB/s. Plans: "
        + "; ".join(f"{mode}: {plan}" for mode, plan in trial.plans.items())
        + f". Built at {building.rows_per_second:,.0f} rows/s in {megabytes(building.peak_bytes)}. "
        f"Served from {megabytes(serving.resident_bytes)} of resident memory, "
        f"{megabytes(serving.rested_bytes)} when the points that were read are given back: "
        f"{megabytes(serving.code_bytes)} are codes, {megabytes(serving.anonymous_bytes)} no "
        f"files, and {megabytes(serving.start_bytes)} there before the index is opened.",
        *(f"{name}: {reason}." for name, reason in trial.absent.items()),
    ]
    if promised := promises(trial):
        parts.append(lines_table(promised))
    return "\n\n".join(parts)


def _cells(row: Row, flat: Row | None) -> list[str]:
    return [
        row.contender,
        _figure(1e3 * row.single.median),
        _figure(1e3 * row.single.p95),
        _times(flat.single.median / row.single.median) if flat else "",
        f"{1 / row.batched.mean:,.0f}",
        _figure(1e3 * row.batched.median),
        _times(flat.batched.median / row.batched.median) if flat else "",
        f"{row.recall:.3f}",
        _figure(row.bytes_per_query / 1e6),
        "" if math.isnan(row.bandwidth_share) else f"{row.bandwidth_share:.0%}",
        "" if math.isnan(row.rescored) else f"{row.rescored:.3%}",
        f"{row.build_seconds:,.0f}" if row.build_seconds else "",
        row.setting,
    ]


def _figure(value: float) -> str:
    if math.isnan(value):
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _times(ratio: float) -> str:
    return f"{ratio:.2g} x" if ratio < 100 else f"{ratio:.0f} x"
