"""What is seen of a picture's parts is what its grid has there."""

from __future__ import annotations

import pytest
import torch

from hasse.lab.encoders.pooling import pool_regions
from hasse.models.encoders.regions import REGIONS


def test_pool_regions_gives_the_whole_and_then_nine_overlapping_regions() -> None:
    torch.manual_seed(0)
    grid = torch.rand(2, 7, 7, 5)
    seen = pool_regions(grid.flatten(1, 2))
    assert seen.shape == (2, REGIONS, 5)
    torch.testing.assert_close(seen[:, 0], grid.mean((1, 2)))
    edges = [(0, 3), (2, 5), (4, 7)]
    boxes = [(top, left) for top in edges for left in edges]
    for at, ((top, bottom), (left, right)) in enumerate(boxes, start=1):
        expected = grid[:, top:bottom, left:right].mean((1, 2))
        torch.testing.assert_close(seen[:, at], expected)


@pytest.mark.parametrize("side", [1, 2, 4, 8, 12])
def test_every_cell_of_a_grid_is_in_some_region(side: int) -> None:
    cells = torch.eye(side * side)[None]  # each cell has a feature of its own
    seen = pool_regions(cells)[0]
    torch.testing.assert_close(seen.sum(1), torch.ones(REGIONS))
    assert (seen[1:].amax(0) > 0).all()
