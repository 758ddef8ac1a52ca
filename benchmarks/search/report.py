"""What a run showed, as text that is also markdown, and as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import faiss as _faiss
import numpy as np

from benchmarks.report import machine, table
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


@dataclass(frozen=True, slots=True)
class Promise:
    """A sentence, a figure, and what the figure should be at least or at most."""

    text: str
    measured: float
    target: float
    at_least: bool
    unit: str

    @property
    def kept(self) -> bool | None:
        """Whether the figure is as promised; None where there is no figure."""
        if np.isnan(self.measured):
            return None
        return self.measured >= self.target if self.at_least else self.measured <= self.target


def promises(trial: Trial) -> list[Promise]:
    """Return what is promised of a trial of this size."""
    if trial.rows < FROM_ROWS:
        return []
    rows = {row.contender: row for row in trial.table}
    every = list(_promises(trial, rows, rows.get(Flat.name)))
    return [promise for promise in every if promise is not None]


def _promises(trial: Trial, rows: dict[str, Row], flat: Row | None) -> Iterator[Promise]:
    exact, certified, fast = (rows[f"hasse {mode}"] for mode in ("exact", "certified", "fast"))
    image = trial.kind == "image"
    yield Promise(
        "`exact`, one query, share of the memory's bandwidth",
        100 * exact.bandwidth_share,
        80,
        at_least=True,
        unit="%",
    )
    if flat is not None:
        yield Promise(
            "`certified`, one query, beside `faiss.IndexFlatIP`",
            flat.single.median / certified.single.median,
            15 if image else 8,
            at_least=True,
            unit="x",
        )
        yield Promise(
            "`certified`, batches, beside `faiss.IndexFlatIP`",
            flat.batched.median / certified.batched.median,
            2,
            at_least=True,
            unit="x",
        )
    yield Promise("`fast`, recall", fast.recall, 0.99, at_least=True, unit="")
    if (graph := rows.get(Graph.name)) is not None:
        yield Promise(
            f"`fast`, one query, beside {Graph.name} of the same recall",
            graph.single.median / fast.single.median,
            1,
            at_least=True,
            unit="x",
        )
    if trial.rows >= MANY_ROWS:
        yield Promise(
            "`certified`, bytes read of those of a float32 scan",
            100 * certified.bytes_per_query / (4 * trial.rows * trial.dimension),
            6 if image else 15,
            at_least=False,
            unit="%",
        )
        yield Promise(
            "serving, resident memory when points are given back, over the codes",
            trial.serving.rested_bytes / trial.serving.code_bytes,
            1.5,
            at_least=False,
            unit="x",
        )


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
        """Return everything for people."""
        parts = [self._head(), *(self._profiles(kind) for kind in self.profiles)]
        parts += [_trial(trial) for trial in self.trials]
        parts += [f"Left out: {reason}." for reason in self.left_out]
        return "\n\n".join(parts) + "\n"

    def json(self) -> str:
        """Return everything for scripts; figures there are none of are null."""
        document = {
            "source": self.source,
            "command": self.command,
            "machine": machine(),
            "versions": _versions(),
            "settings": asdict(self.settings),
            "profiles": {
                kind: {name: asdict(profile) for name, profile in profiles.items()}
                for kind, profiles in self.profiles.items()
            },
            "trials": [
                asdict(trial)
                | {"promises": [asdict(p) | {"kept": p.kept} for p in promises(trial)]}
                for trial in self.trials
            ],
            "left_out": self.left_out,
        }
        return json.dumps(_plain(document), indent=1, allow_nan=False)

    def _head(self) -> str:
        settings = self.settings
        threads = "1 thread" if settings.threads == 1 else f"{settings.threads} threads"
        return (
            f"`{self.command}`\n\n"
            f"{self.source}. {settings.k} hits, {threads}, contenders in turns of one run, "
            f"{_CLOCKS[settings.clock]}, medians over {settings.queries} queries. {machine()}; "
            f"{_versions()}; {datetime.now(UTC):%Y-%m-%d}."
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
    lines = [
        f"### {DIRECTIONS[trial.kind].capitalize()}: {trial.rows:,} x {trial.dimension}",
        table(_HEADS, [_cells(row, flat) for row in trial.table]),
        f"`certified` equals `exact` in {trial.compared} of {trial.compared} queries{unproved}, "
        f"and {trial.checked} answers equal numpy's. The 10th violation is {trial.tenth:.3f}. "
        f"Memory reads at {trial.bandwidth / 1e9:.1f} GB/s. Plans: "
        + "; ".join(f"{mode}: {plan}" for mode, plan in trial.plans.items())
        + f". Built at {building.rows_per_second:,.0f} rows/s in {building.peak_bytes / 1e6:,.0f} "
        f"MB. Served from {serving.resident_bytes / 1e6:,.0f} MB of resident memory, "
        f"{serving.rested_bytes / 1e6:,.0f} MB when the points that were read are given back: "
        f"{serving.code_bytes / 1e6:,.0f} MB are codes, {serving.anonymous_bytes / 1e6:,.0f} MB no "
        f"files, and {serving.start_bytes / 1e6:,.0f} MB there before the index is opened.",
        *(f"{name}: {reason}." for name, reason in trial.absent.items()),
    ]
    if kept := promises(trial):
        heads = ("promise", "target", "measured", "kept")
        lines.append(table(heads, [_promise(promise) for promise in kept]))
    return "\n\n".join(lines)


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


def _promise(promise: Promise) -> list[str]:
    sign = "≥" if promise.at_least else "≤"
    unit = f" {promise.unit}".rstrip()
    kept = {True: "yes", False: "no", None: "not told"}[promise.kept]
    measured = "" if promise.kept is None else f"{promise.measured:.3g}{unit}"
    return [promise.text, f"{sign} {promise.target:g}{unit}", measured, kept]


def _figure(value: float) -> str:
    if math.isnan(value):
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _times(ratio: float) -> str:
    return f"{ratio:.2g} x" if ratio < 100 else f"{ratio:.0f} x"


def _versions() -> str:
    installed = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    return f"{installed}, FAISS's instructions {faiss.SIMDConfig.get_level_name()}"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
