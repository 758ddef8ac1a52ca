"""The tables of joint questions, over a few drawn pictures."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hasse.lab.checkpoints.learned_model import load
from hasse.models.calibration import Calibrations
from hasse.models.checkpoints.named_models import pretrained
from hasse.models.datasets import load as load_dataset
from hasse.service.pipelines.scenes import generate
from hasse.studies.bootstrap import interval
from hasse.studies.tables import lattice, scenes
from hasse.studies.tables.report import show

pytestmark = pytest.mark.slow

PICTURES = 40
CELL = re.compile(r"(\d+\.\d)(?: ± (\d+\.\d))?")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("scenes")
    generate(made, train=0, val=0, test=PICTURES, seed=1, size=96, workers=1)
    return made


@pytest.fixture(scope="module")
def bench(folder: Path) -> scenes.Bench:
    return scenes.Bench.of(load(pretrained("scenes")), load_dataset(folder))


def test_every_table_is_of_shares_even_where_there_are_fewer_pictures_than_it_may_use(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scenes.main([str(folder), "--questions", "20", "--queries", "20"])
    *tables, _ = capsys.readouterr().out.strip().split("\n\n")
    titles = [table.split("  ")[0] for table in tables]
    assert titles == [
        "retrieval",
        "all of",
        "common",
        "exchange: first hit is right",
        "diagram",
        "entailment",
    ]
    for table in tables:
        heads, *rows = table.splitlines()
        for row in rows:
            cells = CELL.findall(row[row.index("  ") :])
            assert len(cells) == len(re.findall(r"\S+(?: \S+)*", heads)) - 1
            assert all(0 <= float(mean) <= 100 for mean, _ in cells)
            assert all(0 <= float(half) <= 50 for _, half in cells if half)


def test_a_cell_is_a_mean_with_half_the_interval_that_all_measurements_have(
    capsys: pytest.CaptureFixture[str],
) -> None:
    values = np.random.default_rng(0).random(30)
    low, high = interval(values)
    show("title", ["head"], {"way": [values], "once": [values[:1]]})
    _, way, once = capsys.readouterr().out.strip().splitlines()
    assert way.split(maxsplit=1)[1] == f"{100 * values.mean():.1f} ± {50 * (high - low):.1f}"
    assert once.split(maxsplit=1)[1] == f"{100 * values[0]:.1f}"


def test_pictures_that_both_captions_are_true_of_are_found_by_both(bench: scenes.Bench) -> None:
    measured = {name: column.mean() for name, (column,) in lattice.all_of(bench, 50).items()}
    assert measured[f"worst part {lattice.OURS}"] > 0.9
    assert measured["first caption alone"] < 0.5


def test_what_answers_an_exchange_shows_what_was_put_in_and_not_what_was_taken_out(
    bench: scenes.Bench,
) -> None:
    def shows(row: int, said: str) -> bool:
        words = said.removeprefix("an ").removeprefix("a ").split()
        return any(
            set(words) <= {str(entity.colour), entity.kind}
            for entity in bench.scenes[row].situation.entities
        )

    asked = lattice.exchanges(bench.scenes, 100)
    assert all(asked.values())
    for kind in ("colour, by phrase", "kind of animal"):
        for question in asked[kind]:
            assert shows(question.row, question.minus)
            assert not shows(question.row, question.plus)
            for row in question.right:
                assert shows(row, question.plus)
                assert not shows(row, question.minus)
    for question in (question for questions in asked.values() for question in questions):
        assert question.row not in question.right


def test_no_diagram_is_measured_of_a_model_that_was_not_calibrated(
    bench: scenes.Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    unknown = replace(bench, checkpoint=replace(bench.checkpoint, calibration=Calibrations()))
    show("diagram", ["precision", "recall"], lattice.diagram(unknown, 5))
    assert capsys.readouterr().out == ""
