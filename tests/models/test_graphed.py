from __future__ import annotations

import pytest
import torch
from torch import Tensor

from models.graphed import Graphed

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="graphs are a GPU's")


def test_a_graph_does_what_the_step_does_for_each_shape_again_and_again() -> None:
    total = torch.zeros((), device="cuda")
    calls = 0

    def step(a: Tensor, b: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        total.add_((a * b).sum())
        return total * 2

    graphed = Graphed(step, "cuda")
    expected = 0.0
    for round_ in range(1, 5):
        for size in (3, 5):
            a, b = torch.full((size,), float(round_)), torch.arange(size, dtype=torch.float32)
            expected += float((a * b).sum())
            assert float(graphed(a, b)) == 2 * expected
    assert calls == 4, "of each shape once by itself and once to be captured"
