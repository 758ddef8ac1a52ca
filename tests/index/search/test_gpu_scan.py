from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hasse.index.kernels.threads import Workers
from hasse.index.kernels.triton_scan import shape_of
from hasse.index.search.gpu_scan import Accelerator
from hasse.index.search.query import Query
from hasse.index.search.search import search
from hasse.index.types import Kind, Points
from hasse.models.score import Score
from tests.device import DEVICE
from tests.index.samples import embeddings, grid, snapshot


def accelerator(memory: int = 10**9) -> Accelerator:
    """One that holds segments however small they are."""
    return Accelerator(DEVICE, memory, min_bytes=1)


@pytest.mark.parametrize(
    ("kind", "score"), [("image", "order"), ("caption", "order"), ("image", "cosine")]
)
@pytest.mark.parametrize("make", [embeddings, grid])
def test_device_gives_the_answers_of_the_cpu_bit_for_bit(
    kind: Kind,
    score: Score,
    make: Callable[[np.random.Generator, int, int], Points],
    tmp_path: Path,
    workers: Workers,
) -> None:
    rng = np.random.default_rng(0)
    blocks = [(np.arange(at, at + 150), make(rng, 150, 33)) for at in (0, 150)]
    excluded = rng.permutation(300)[:40].tolist()
    now = snapshot(tmp_path, kind, score, blocks, excluded)
    queries = np.vstack([make(rng, 4, 33), blocks[0][1][:2]])
    device = accelerator()
    device.keep([live.segment for live in now.segments])
    for k, limit in ((3, 0.3), (200, None)):
        query = Query(kind, k, "certified", max_violation=limit)
        there = search(now, queries, query, workers, device)
        here = search(now, queries, replace(query, mode="exact"), workers)
        for got, want in zip(there, here, strict=True):
            assert got.plan == "2 device"
            assert got.certified
            assert got.ids.tolist() == want.ids.tolist()
            assert got.violations.tolist() == want.violations.tolist()


@pytest.mark.parametrize("sign", [1, -1])
def test_points_beyond_float16_are_scanned_on_the_cpu(
    sign: int, tmp_path: Path, workers: Workers
) -> None:
    points = embeddings(np.random.default_rng(3), 60, 8)
    points[7, 3] = sign * 70_000
    now = snapshot(tmp_path, "image", "cosine", [(np.arange(60), points)])
    device = accelerator()
    device.keep([now.segments[0].segment])
    (answer,) = search(now, points[7:8], Query("image", 3), workers, device)
    assert answer.plan == "1 scan"
    assert answer.ids[0] == 7


def test_shortlist_holds_few_more_rows_than_k(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    now = snapshot(tmp_path, "image", "order", [(np.arange(1000), embeddings(rng, 1000, 64))])
    device = accelerator()
    device.keep([now.segments[0].segment])
    resident = device.resident(now.segments[0].segment)
    assert resident is not None
    queries = embeddings(rng, 10, 64)
    for rows in resident.shortlist(now.segments[0].excluded, queries, 10, np.full(10, np.inf)):
        assert 10 <= len(rows) <= 13


def test_accelerator_holds_segments_that_fit_and_releases_old_ones(
    tmp_path: Path, workers: Workers
) -> None:
    rng = np.random.default_rng(2)
    now = snapshot(
        tmp_path,
        "image",
        "order",
        [(np.arange(60), embeddings(rng, 60, 8)), (np.arange(60, 100), embeddings(rng, 40, 8))],
    )
    large, small = (live.segment for live in now.segments)
    device = accelerator(2 * math.prod(shape_of(60, 8)) + 100)
    device.keep([small, large])
    assert device.resident(large) is not None
    assert device.resident(small) is None
    (answer,) = search(now, embeddings(rng, 1, 8), Query("image", 3), workers, device)
    assert answer.plan == "1 device, 1 scan"
    device.keep([small])
    assert device.resident(large) is None
    assert device.resident(small) is not None


def test_gpu_scan_imports_without_a_web_framework_faiss_or_sqlalchemy() -> None:
    program = (
        "import sys; sys.modules |= dict.fromkeys(('fastapi', 'faiss', 'sqlalchemy')); "
        "import hasse.index.search.gpu_scan, hasse.lab.kernels.gpu_violations"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[3],
    )
    assert done.returncode == 0, done.stderr
