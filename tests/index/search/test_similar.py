"""Images like an image: every relation against the violations in plain numpy."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from hasse.index.catalog.selection import Selection
from hasse.index.search.query import Query
from hasse.index.store import Index
from hasse.index.types import MODES, ImageRow, ModelIdentity, Relation
from hasse.models.score import Score
from tests.oracle import pairwise_violation


@pytest.mark.parametrize("relation", get_args(Relation))
@pytest.mark.parametrize("score", get_args(Score))
def test_search_similar_ranks_images_as_violations_do(
    tmp_path: Path, score: Score, relation: Relation
) -> None:
    rows = np.random.default_rng(0).random((90, 16)).astype(np.float32)
    rows[7] = rows[40]
    model = ModelIdentity("m", "f", 16, score)
    with Index.create(tmp_path / "index", model) as index:
        for part in np.split(np.arange(90), 3):
            images = [ImageRow(int(at), f"{at}", "", split="odd" * (at % 2)) for at in part]
            index.add(images, rows[part])
        index.remove([3])
        chosen = [at for at in range(90) if at % 2 and at != 3]
        query, others = rows[[7]], rows[chosen]
        lacks, has = pairwise_violation(others, query)[:, 0], pairwise_violation(query, others)[0]
        expected = {"alike": lacks + has, "more_specific": lacks, "more_general": has}[relation]
        if score == "cosine":
            expected = 1 - others @ query[0]
        order = np.lexsort((chosen, expected.astype(np.float32)))[:12]
        for mode in MODES:
            asked = Query("image", 12, mode, selection=Selection(split="odd"), relation=relation)
            answer = index.search(asked, query[0])
            assert np.allclose(answer.violations, expected[order], atol=1e-5)
            assert set(answer.ids.tolist()) == {chosen[at] for at in order}
            assert (answer.certified, answer.searched) == (True, 44)
