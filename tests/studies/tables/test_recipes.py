from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from hasse.lab.evaluation.significance import differences
from hasse.studies.tables import recipes
from hasse.studies.tables.recipes import differences_of_trainings
from tests.lab.evaluation.test_significance import retrieval
from tests.studies.tables.drawn import make

NETWORK = "torchvision/regnet_y_400mf"
SMALL = ("epochs=2", "dimension=16", "word_dimension=8", "batch_size=8")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few captioned pictures, and their features with two views of each."""
    home = tmp_path_factory.mktemp("recipes")
    make(home, NETWORK, lambda at: f"picture {at}\na thing {at % 7}\n", "--views", 2)
    return home


@pytest.mark.slow
def test_recipes_are_trained_once_and_compared(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = home / "out"
    command = ["recipes", str(home / "data"), str(home / "features"), "--out", str(out)]
    command += ["--seeds", "2", "--only", "order", "views", "hasse", "--set", *SMALL]
    monkeypatch.setattr(sys, "argv", command)
    recipes.main()
    first = capsys.readouterr()
    assert first.err.count("epoch 2, R@1") == 6

    rows = [line for line in first.out.splitlines() if line.startswith(("| the", "| +"))]
    assert [row.split(" | ")[0].strip("| ") for row in rows] == [
        recipes.RECIPES[name].words for name in ("order", "views", "hasse")
    ]
    for name, row in zip(("order", "views", "hasse"), rows, strict=True):
        histories = [
            json.loads((out / f"{name}-{seed}" / "metrics.json").read_bytes())["history"]
            for seed in (0, 1)
        ]
        rsums = [max(e["validation"]["rsum"] for e in history) for history in histories]
        printed = [float(number) for number in re.findall(r"[\d.]+", row.split(" | ")[1])]
        assert printed == pytest.approx([np.mean(rsums), min(rsums), max(rsums)], abs=0.06)

    number = r"([+-][\d.]+)"
    gap = re.search(rf"hasse less order: rsum {number} \({number} to {number}\)", first.out)
    assert gap is not None
    assert float(gap[2]) <= float(gap[1]) <= float(gap[3])
    assert "hasse less hasse-cosine" not in first.out, "it was not asked for"

    recipes.main()
    again = capsys.readouterr()
    assert again.err == "", "all of it was kept"
    assert again.out.split("\n\n")[:2] == first.out.split("\n\n")[:2]


def test_trainings_that_differ_widen_the_interval_and_copies_of_one_do_not_shrink_it() -> None:
    one, other = retrieval(5, highest=6), retrieval(6, highest=60)
    alone = differences([one], [other])
    copies = differences_of_trainings([one] * 3, [other] * 3)
    assert copies.rsum == pytest.approx(alone.rsum)
    mixed = differences_of_trainings([one, other, other], [other] * 3)
    low, high = mixed.rsum
    assert low == 0, "a draw may hold none of the better training"
    assert high - low > alone.rsum[1] - alone.rsum[0]
    low, high = differences_of_trainings([one, other], [one, other]).rsum
    assert low < 0 < high, "the trainings of each recipe are drawn by themselves"
    few = retrieval(11, images=29)
    for mine, others in (([one, few], [other]), ([one], [other, few])):
        with pytest.raises(ValueError, match="same images and captions"):
            differences_of_trainings(mine, others)
