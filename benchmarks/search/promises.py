"""What the search promises, beside what a trial showed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks.search.approximate import Graph
from benchmarks.search.contenders import Flat
from benchmarks.search.trial import Row, Trial

# Smaller collections fit into caches or take no time: nothing is promised about them.
FROM_ROWS = 100_000
MANY_ROWS = 1_000_000


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
    kept = list(_promises(trial, rows, rows.get(Flat.name)))
    return [promise for promise in kept if promise is not None]


def _promises(trial: Trial, rows: dict[str, Row], flat: Row | None) -> Iterator[Promise]:
    exact, certified, fast = (rows[f"hasse {mode}"] for mode in ("exact", "certified", "fast"))
    image = trial.kind == "image"
    if flat is not None:
        yield Promise(
            "`exact`, one query, beside `faiss.IndexFlatIP`",
            flat.single.median / exact.single.median,
            2,
            at_least=True,
            unit="x",
        )
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
