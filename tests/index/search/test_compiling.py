from __future__ import annotations

import subprocess
import sys
from pathlib import Path

# In a process of its own for each score: other tests have compiled kernels in this one. They are
# forked by one that has imported everything.
PROGRAM = """
import gc, os, sys
from pathlib import Path
import numpy as np
from numba.core.dispatcher import Dispatcher
from hasse.index.catalog.selection import Selection
from hasse.index.search.compiling import compile_kernels
from hasse.index.search.query import Query
from hasse.index.store import Index
from hasse.index.types import KINDS, MODES
from tests.index.samples import BOUNDED, captions, embeddings, images, model

folder = Path(sys.argv[1])
for score in ("order", "order-reversed", "cosine"):
    if child := os.fork():
        assert os.waitpid(child, 0)[1] == 0, score
    else:
        break
else:
    sys.exit()

points = embeddings(np.random.default_rng(0), 700, 16)
ids = list(range(700))
index = Index.create(folder / score, model(16, score), threads=1, thresholds=BOUNDED)
index.add(images(ids), points, captions(ids, ids), points)
index.remove([3])

def compiled():
    kernels = [one for one in gc.get_objects() if isinstance(one, Dispatcher)]
    return sum(len(one.overloads) for one in kernels)

compile_kernels(score)
before = compiled()
for kind in KINDS:
    for mode in MODES:
        for selection in (None, Selection(image_ids=tuple(range(5, 600)))):
            query = Query(kind, 5, mode, selection=selection)
            index.search_batch(query, points[:1])
            index.search_batch(query, points[:3])
            index.search_jointly(query, points[:2])
    index.search(Query(kind, 5, relation="more_general"), points[0])
assert compiled() == before, f"{compiled() - before} kernels were compiled for a search"
"""


def test_searches_compile_nothing_once_the_kernels_are_compiled(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[3],
    )
    assert done.returncode == 0, done.stderr
