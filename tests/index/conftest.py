from __future__ import annotations

from collections.abc import Iterator

import faiss
import pytest

from index.kernels.threads import Workers
from index.search.cost_model import Costs


@pytest.fixture(autouse=True, scope="session")
def _one_faiss_thread() -> None:
    # Clustering a hundred points on all cores takes longer than on one.
    faiss.omp_set_num_threads(1)


@pytest.fixture(scope="session")
def workers() -> Iterator[Workers]:
    pool = Workers(2)
    yield pool
    pool.close()


@pytest.fixture
def everywhere_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give every segment bounds, and a prefilter from 60 rows on, as large ones have."""
    monkeypatch.setattr("index.segments.segment.BOUNDS_FROM_BYTES", 1)
    monkeypatch.setattr("index.segments.segment.PREFILTER_FROM_ROWS", 60)
    monkeypatch.setattr(
        "index.search.cost_model.COSTS", Costs((1, 1, 1), (1, 1, 1), (0, 0, 0), 0, 0)
    )
