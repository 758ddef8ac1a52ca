"""The table of verdicts on two texts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hasse.lab.checkpoints.learned_model import load
from hasse.models.calibration import Calibrations
from hasse.models.checkpoints.checkpoint import Checkpoint
from hasse.models.checkpoints.named_models import pretrained
from hasse.studies.photographs.text_pairs import TextPair
from hasse.studies.tables import verdicts


@pytest.fixture(scope="module")
def photographs() -> Checkpoint:
    return load(pretrained("photographs"))


def test_rows_count_right_verdicts_of_each_kind_of_pair(photographs: Checkpoint) -> None:
    pairs = [
        TextPair("a poodle", "a dog", True, "above"),
        TextPair("a poodle", "a bus", False, "beside"),
        TextPair("a dog", "a bus", True, "beside"),
    ]
    found = verdicts.rows(photographs, pairs)
    assert list(found) == ["all", "above", "beside"]
    assert found["all"].accuracy == pytest.approx(200 / 3)
    assert (found["above"].accuracy, found["beside"].accuracy) == (100, 50)
    assert found["beside"].of_true == 0


def test_rows_of_a_model_without_verdicts_end_with_what_to_do(photographs: Checkpoint) -> None:
    with pytest.raises(SystemExit, match="calibrate it first"):
        verdicts.rows(replace(photographs, calibration=Calibrations()), [])
