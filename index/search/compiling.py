"""Compiles all kernels of searches before the first search.

Numba caches the machine code on disk, so this takes seconds once for each installation, and little
time afterwards. The kernels do not depend on the index: a small segment of each kind is written to
a temporary folder and searched in every mode.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from hasse.index.kernels.arrays import read_only
from hasse.index.kernels.threads import Workers
from hasse.index.search.query import Query
from hasse.index.search.search import search, search_jointly
from hasse.index.search.similar import search_similar
from hasse.index.segments.cost_model import Costs, Thresholds
from hasse.index.segments.segment import Segment, write_segment
from hasse.index.segments.snapshot import LiveSegment, Snapshot
from hasse.index.types import KINDS, MODES, ModelIdentity
from hasse.models.score import Score

_ROWS, _DIMENSION = 384, 64  # more rows than candidates, so that bounds rule some out
_FREE = Costs(1.0, 1.0, (0.0, 0.0, 0.0), 0.0, 0.0)  # bounds are free, so they are always used
_THRESHOLDS = Thresholds(bounds_from_bytes=1, prefilter_from_rows=2 * _ROWS)


def compile_kernels(score: Score) -> None:
    """Compile the kernels for a score, or load them from numba's cache."""
    points = read_only(np.random.default_rng(0).random((_ROWS, _DIMENSION), np.float32))
    model = ModelIdentity("", "", _DIMENSION, score)
    workers = Workers(1)
    with TemporaryDirectory(prefix="hasse-kernels-") as folder:
        for kind in KINDS:
            path = Path(folder) / kind
            record = write_segment(path, kind, score, np.arange(_ROWS), points, _THRESHOLDS)
            live = LiveSegment.all_live(Segment.open(path, record, "sizes"))
            snapshot = Snapshot(1, model, (live.excluding_ids(np.array([0])),))
            for mode in MODES:
                query = Query(kind, 1, mode)
                search(snapshot, points[:1], query, workers, costs=_FREE)
                search_jointly(snapshot, points[:2], query, workers, costs=_FREE)
            list(search_similar(snapshot, points[:1], query, "alike", workers))
