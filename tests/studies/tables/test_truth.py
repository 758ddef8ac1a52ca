"""The table of what is there and what is left out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hasse.models.datasets import Image
from hasse.studies.tables.truth import measure, names_of


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
