from __future__ import annotations

from collections.abc import Iterator

import faiss
import pytest

from hasse.index.kernels.threads import Workers


@pytest.fixture(autouse=True, scope="session")
def _one_faiss_thread() -> None:
    # Clustering a hundred points on all cores takes longer than on one.
    faiss.omp_set_num_threads(1)


@pytest.fixture(scope="session")
def workers() -> Iterator[Workers]:
    pool = Workers(2)
    yield pool
    pool.close()


@pytest.fixture(scope="session")
def small_tasks() -> Iterator[Workers]:
    """Two threads that share the smallest work, which one would do alone otherwise."""
    pool = Workers(2, bytes_per_task=100)
    yield pool
    pool.close()
