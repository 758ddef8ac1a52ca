from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from hasse.index.creation import open_catalog
from hasse.index.errors import CatalogUnreachableError
from hasse.index.search.query import Query
from hasse.index.store import Index
from hasse.index.verify import verify
from tests.index.samples import embeddings, images, small_index


def replaced(path: Path) -> None:
    shutil.copy2(path, path.with_name("copy"))
    path.with_name("copy").replace(path)


@pytest.mark.parametrize(
    ("take", "why"), [(Path.unlink, "No such file or directory"), (replaced, "it was replaced")]
)
@pytest.mark.parametrize(
    "change",
    [
        lambda index, points: index.add(images(range(50, 53)), points),
        lambda index, _: index.remove([1]),
        lambda index, _: index.refresh(),
    ],
)
def test_change_after_catalog_file_was_replaced_is_refused_by_name(
    change: Callable[[Index, object], object],
    take: Callable[[Path], None],
    why: str,
    tmp_path: Path,
) -> None:
    points = embeddings(np.random.default_rng(0), 3, 16)
    with small_index(tmp_path / "i") as index:
        path = index.folder / "catalog.db"
        before = index.search(Query("image", 5), points[0]).ids.tolist()
        take(path)
        there = path.exists()
        said = rf"catalog\.db is no longer the file that is open here \({why}\): restore it"
        for _ in range(2):
            with pytest.raises(CatalogUnreachableError, match=said):
                change(index, points)
        assert path.exists() is there
        assert index.search(Query("image", 5), points[0]).ids.tolist() == before
        assert index.generation == 1
    if there:
        assert verify(tmp_path / "i").ok


def test_file_that_took_the_place_of_the_catalog_is_not_read_beside_it(tmp_path: Path) -> None:
    small_index(tmp_path / "i").close()
    with closing(open_catalog(tmp_path / "i")) as catalog:
        replaced(tmp_path / "i" / "catalog.db")
        catalog.close()  # the next read makes a connection
        with pytest.raises(CatalogUnreachableError, match="it was replaced"):
            catalog.images([1])
