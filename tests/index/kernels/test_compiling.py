from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import hasse

CODE = """
import numpy as np
from hasse.index.search import top_k
best = top_k.TopK(1, 3)
best.add(np.arange(2), np.array([0, 2]), np.ones(2, np.float32))
print(len(best.hits()[0]), sum(top_k._add.stats.cache_hits.values()))
"""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the package, which keeps its machine code beside its files."""
    package = Path(hasse.__file__).parent
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(package / "index", tmp_path / "hasse" / "index", ignore=ignored)
    (tmp_path / "hasse" / "models").symlink_to((package / "models").resolve())
    shutil.copy(package / "__init__.py", tmp_path / "hasse")
    return tmp_path


def added_and_cached(folder: Path) -> str:
    """Return how many rows the k best of two are, and how many kernels came from the cache."""
    paths = [str(folder), *(path for path in sys.path if path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "NUMBA_CACHE_DIR": ""}
    command = [sys.executable, "-B", "-c", CODE]
    done = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow
def test_kernel_cache_is_kept_until_a_function_that_a_kernel_calls_is_edited(copy: Path) -> None:
    assert added_and_cached(copy) == "2 0"
    assert added_and_cached(copy) == "2 1"
    heap = copy / "hasse" / "index" / "kernels" / "heap.py"
    pushed = "        _sift_down(violations, ids, violations.shape[0])"
    heap.write_text(heap.read_text().replace(pushed, "        pass"))
    assert added_and_cached(copy) == "1 0"


@pytest.mark.slow
def test_kernel_cache_is_not_used_after_an_edit_of_emitted_code(copy: Path) -> None:
    added_and_cached(copy)
    with (copy / "hasse" / "index" / "kernels" / "llvm.py").open("a") as file:
        file.write("\n")
    assert added_and_cached(copy) == "2 0"
