"""One run: the points, every trial that fits, and the results as far as they have come."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import faiss as _faiss
import torch

from benchmarks.search import source, trial
from benchmarks.search.growth import profiles
from benchmarks.search.oracle import WrongAnswerError
from benchmarks.search.report import DIRECTIONS, Report
from benchmarks.search.trial import Settings
from hasse.index.types import KINDS

faiss: Any = _faiss

# Bytes on the disk for each coordinate: the point, its codes, and what the prefilter adds.
_DISK_BYTES = 5.8


def run(options: argparse.Namespace, command: str) -> int:
    """Measure and write the results to the output folder; return the exit status."""
    faiss.omp_set_num_threads(options.threads)
    torch.set_num_threads(options.threads)
    try:
        points = _points(options)
    except source.SourceError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    settings = Settings(
        batches=tuple(options.batches),
        threads=options.threads,
        beside=tuple(options.beside),
        queries=options.queries,
        checked=options.checked,
        seconds=options.seconds,
        clock=options.clock,
    )
    report = Report(
        f"{points.name}: {len(points.images):,} real images and {len(points.captions):,} captions",
        command,
        settings,
        {kind: profiles(points.stored(kind), points.asking(kind), kind) for kind in KINDS},
        [],
        [],
    )
    options.out.mkdir(parents=True, exist_ok=True)
    for rows in sorted(options.rows):
        for kind in KINDS:
            if (reason := _no_room(rows, points.dimension, options.out)) is not None:
                report.left_out.append(f"{rows:,} rows: {reason}")
                break
            folder = options.out / f"{kind}-{rows}"
            shutil.rmtree(folder, ignore_errors=True)
            try:
                report.trials.append(
                    trial.run(
                        kind,
                        rows,
                        points.stored(kind),
                        points.asking(kind),
                        folder,
                        settings,
                        _Teller(f"{DIRECTIONS[kind]}, {rows:,} rows"),
                    )
                )
            except WrongAnswerError as error:
                sys.stderr.write(f"error: WRONG ANSWER: {error}\n")
                return 1
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            # After every trial: a run that is stopped has not been for nothing.
            _write(report, options.out)
    print(_write(report, options.out), end="")
    return 0


def _points(options: argparse.Namespace) -> source.Source:
    if not (options.points / source.ABOUT).exists() and options.model and options.dataset:
        sys.stderr.write(f"encoding {options.dataset} with {options.model}: takes minutes, once\n")
        made = source.encode(options.model, options.dataset)
        made.save(options.points)
    return source.load(options.points)


def _no_room(rows: int, dimension: int, folder: Path) -> str | None:
    needed, free = _DISK_BYTES * rows * dimension, shutil.disk_usage(folder).free
    if needed > 0.9 * free:
        return f"they need {needed / 1e9:.0f} GB on the disk of {folder}, {free / 1e9:.0f} are free"
    return None


def _write(report: Report, folder: Path) -> str:
    text = report.markdown()
    (folder / "search.md").write_text(text, encoding="utf-8")
    return text


class _Teller:
    """Says on the standard error what goes on."""

    def __init__(self, about: str) -> None:
        self._about, self._began = about, time.monotonic()

    def __call__(self, what: str) -> None:
        seconds = time.monotonic() - self._began
        sys.stderr.write(f"{self._about}: {what} ({seconds:.0f} s)\n")
