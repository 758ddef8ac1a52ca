from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from hasse.lab.evaluation.retrieval import retrieve
from hasse.lab.pipelines.dataset_encoding import EncodedDataset
from hasse.lab.pipelines.evaluation import ModelEvaluation
from hasse.models.score import SCORES, Score
from hasse.studies.plotter import FiguresError
from hasse.studies.tables import figures
from hasse.studies.tables.figures import draw
from tests.lab.evaluation.test_retrieval import dataset, unit

NAMES = ["recall", "ranks", "violations", "points"]


def measured(score: Score = "order") -> ModelEvaluation:
    rng = np.random.default_rng(0)
    collection = dataset([[f"{i} a", f"{i} b"] for i in range(12)])
    encoded = EncodedDataset(collection, unit(rng.random((12, 6))), unit(rng.random((24, 6))))
    blocks = [retrieve(collection, encoded.images, encoded.captions, score)]
    return ModelEvaluation("tiny", "0", score, encoded, blocks)


@pytest.mark.parametrize("score", SCORES)
def test_four_figures_are_drawn_the_same_each_time(tmp_path: Path, score: Score) -> None:
    told: list[int] = []
    first = draw(measured(score), tmp_path / "a", lambda done, total: told.append(done))
    again = draw(measured(score), tmp_path / "b", lambda done, total: None)
    assert [path.name for path in first] == [f"{name}.svg" for name in NAMES]
    assert told == [1, 2, 3, 4]
    for one, other in zip(first, again, strict=True):
        assert one.read_bytes() == other.read_bytes()
        assert ElementTree.parse(one).getroot().tag.endswith("svg")  # noqa: S314


def test_true_and_false_pairs_are_counted_each_once() -> None:
    edges, true, false = figures._spread(measured())
    assert (true.sum(), false.sum()) == (24, 12 * 24 - 24)
    assert len(edges) == len(true) + 1


def test_without_matplotlib_the_remedy_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(FiguresError, match="pip install matplotlib"):
        draw(measured(), tmp_path, lambda done, total: None)
    assert not list(tmp_path.iterdir())
