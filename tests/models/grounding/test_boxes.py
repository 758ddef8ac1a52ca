"""Where things are in a grid of cells, and in a picture."""

from __future__ import annotations

import numpy as np
import pytest

from hasse.models.grounding.boxes import Boxes, boxes_in_cells, find_boxes
from hasse.models.grounding.demands import Phrase
from hasse.models.grounding.evidence import Evidence, Floats
from tests.tiny import tiny_model

SIDE, CLASSES = 17, 40


@pytest.fixture(scope="module")
def evidence() -> Evidence:
    """Return evidence of single classes, then of the first two and of all."""
    single = np.eye(CLASSES, dtype=np.float32)
    several = np.zeros((CLASSES, 2), np.float32)
    several[:2, 0] = several[:, 1] = 1
    classifier = 20 * single, np.zeros(CLASSES, np.float32)
    return Evidence(np.concatenate([single, several], 1), classifier)


def cells(**shown: tuple[int, int, int, int]) -> Floats:
    """Return cells that show class 39, and classes of numbered names inside boxes of cells."""
    grid = np.zeros((SIDE, SIDE, CLASSES), np.float32)
    grid[..., -1] = 1
    for name, (left, top, right, bottom) in shown.items():
        grid[top:bottom, left:right] = 0
        grid[top:bottom, left:right, int(name.removeprefix("class_"))] = 1
    return grid.reshape(-1, CLASSES)


def sought(*coordinates: int, beside: bool = False) -> list[Phrase]:
    return [Phrase("it", (one,), beside) for one in coordinates]


def touches(box: Boxes, left: int, top: int, right: int, bottom: int) -> bool:
    """Tell whether a box has its middle in a box of cells."""
    across, down = (box[:2] + box[2:]) / 2 * SIDE
    return bool(left <= across <= right and top <= down <= bottom)


def test_boxes_are_where_the_classes_of_phrases_are(evidence: Evidence) -> None:
    first, second = (1, 1, 8, 8), (10, 9, 16, 15)
    found = boxes_in_cells(evidence, cells(class_0=first, class_1=second), sought(0, 1))
    assert touches(found[0], *first)
    assert touches(found[1], *second)
    assert found.min() >= 0
    assert found.max() <= 1
    assert (found[:, :2] < found[:, 2:]).all()


def test_box_of_what_fills_the_picture_is_the_picture(evidence: Evidence) -> None:
    found = boxes_in_cells(evidence, cells(class_0=(0, 0, SIDE, SIDE)), sought(0, CLASSES))
    np.testing.assert_array_equal(found, [[0, 0, 1, 1]] * 2)


def test_phrase_that_is_not_shown_has_no_box(evidence: Evidence) -> None:
    found = boxes_in_cells(evidence, cells(class_0=(1, 1, 8, 8)), sought(5, 0))
    assert not found[0].any()
    assert found[1].any()


def test_phrase_beside_the_classes_that_says_hardly_anything_has_no_box(
    evidence: Evidence,
) -> None:
    shown = cells(class_0=(1, 1, 8, 8))
    every = CLASSES + 1
    assert not boxes_in_cells(evidence, shown, sought(every, beside=True)).any()
    assert boxes_in_cells(evidence, shown, sought(every)).any()
    assert boxes_in_cells(evidence, shown, sought(CLASSES, beside=True)).any()


def test_find_refuses_a_model_that_is_not_grounded() -> None:
    pixels = np.zeros((1, 3, 32, 32), np.float32)
    with pytest.raises(TypeError, match="grounded"):
        find_boxes(tiny_model(), pixels, sought(0))
