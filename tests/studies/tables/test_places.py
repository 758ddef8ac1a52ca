"""The table of places, on pictures pasted into each other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hasse.models.datasets import load
from hasse.studies.tables import places
from tests.studies.tables.test_truth import named_pictures
from tests.tiny import tiny_checkpoint

NAMES = ["n00000001_1_dog.png", "n00000002_1_cat.png", "n00000003_1_bus.png"]


def test_pasted_pictures_have_the_box_of_a_name_that_is_there(tmp_path: Path) -> None:
    images = load(named_pictures(tmp_path, NAMES)).images
    (one,) = places.pasted(images, 1)
    (again,) = places.pasted(images, 1)
    assert one.picture.tobytes() == again.picture.tobytes()
    assert one.name != one.absent
    left, top, right, bottom = one.box
    assert 0.34 < right - left < 0.61
    assert right - left == pytest.approx(bottom - top)
    assert min(left, top) >= 0
    assert max(right, bottom) <= 1


def test_overlap_and_pointing_compare_boxes() -> None:
    whole, quarter = np.array([0, 0, 1, 1.0]), np.array([0.5, 0.5, 1, 1])
    assert places.overlap(whole, quarter) == pytest.approx(0.25)
    assert places.overlap(quarter, np.array([0, 0, 0.5, 0.5])) == 0
    assert places.points_into(quarter, whole)
    assert places.points_into(whole, quarter), "its middle is the corner of the quarter"
    assert not places.points_into(np.array([0, 0, 0.5, 0.5]), quarter)
    assert not places.points_into(np.zeros(4), whole), "nothing was found"


def test_table_of_a_model_that_is_not_grounded_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tiny_checkpoint(tmp_path / "model")
    data = named_pictures(tmp_path, NAMES)
    with pytest.raises(SystemExit):
        places.main([str(data), "--model", str(model)])
    assert "is not grounded" in capsys.readouterr().err
