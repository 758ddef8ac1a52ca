"""The table of what is there and what is left out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Pillow

from hasse.lab.checkpoints.learned_model import load
from hasse.models.datasets import Dataset, DatasetError, Image, save
from hasse.studies.tables import truth
from hasse.studies.tables.truth import coverage, measure, names_of
from tests.tiny import tiny_checkpoint


def test_names_are_read_off_files_and_the_first_of_each_are_skipped() -> None:
    files = ["n00000001_1_dog.jpg", "n00000001_2_dog.jpg", "n00000002_7_cup_or_mug.jpg", "x.jpg"]
    images = [Image(at, name, Path(name)) for at, name in enumerate(files)]
    assert names_of(images, 0) == ([0, 1, 2], ["dog", "dog", "cup"])
    assert names_of(images, 1) == ([1], ["dog"])


def test_measure_counts_what_is_found_and_what_is_not_there() -> None:
    own = np.eye(3, dtype=np.bool_)
    violations = np.array([[0.1, 0.8, 0.2], [0.7, 0.2, 0.9], [0.9, 0.6, 0.3]])
    found = {name: value[0] for name, value in measure(1 - violations, violations, own).items()}
    assert found["first picture right"] == pytest.approx(2 / 3)
    assert found["there: found and called likely"] == pytest.approx(2 / 3)
    assert found["left out: nothing called likely"] == pytest.approx(2 / 3)
    assert found["AUC, there against left out"] == pytest.approx((3 + 2.5 + 2.5) / 9)


def test_coverage_is_the_share_answered_before_too_many_answers_are_wrong() -> None:
    right = np.array([True] * 19 + [False] + [True] * 10 + [False] * 10)
    falling = np.linspace(1, 0, 40)
    once = np.ones(40)
    assert coverage(falling, right, once) == 30 / 40, "1 of 20 is wrong, 1 of 30, 2 of 31"
    assert coverage(falling, right, np.where(right, 1, 0)) == 1, "wrong ones count nothing"
    assert coverage(falling, ~right, once) == 0


def named_pictures(folder: Path, names: list[str]) -> Path:
    """Write a dataset of pictures without captions."""
    images = []
    for at, name in enumerate(names, start=1):
        colours = np.random.default_rng(at).integers(0, 256, (3, 4, 3), dtype=np.uint8)
        Pillow.fromarray(colours).resize((40, 30)).save(folder / name)
        images.append(Image(at, name, folder / name))
    return save(Dataset("named", tuple(images)), folder / "data").parent


def test_table_measures_pictures_that_have_no_captions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tiny_checkpoint(tmp_path / "model")
    data = named_pictures(tmp_path, ["n00000001_1_dog.png", "n00000002_1_cat.png"])
    found = truth.table(load(model), data, 0)
    assert found["first picture right"][0] in (0, 0.5, 1)
    truth.main([str(data), "--model", str(model)])
    assert len(capsys.readouterr().out.splitlines()) == len(found) == 5


def test_pictures_that_are_not_named_by_synsets_are_refused(tmp_path: Path) -> None:
    model = tiny_checkpoint(tmp_path / "model")
    data = named_pictures(tmp_path, ["dog.png"])
    with pytest.raises(DatasetError, match="name pictures as"):
        truth.main([str(data), "--model", str(model)])
