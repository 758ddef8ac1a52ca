from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from hasse.models.kernels.cuda_graph import CudaGraphStep


class Tape(TorchDispatchMode):  # type: ignore[no-untyped-call] # torch's
    """Stands for a graph on a CPU: the operations asked for, done again on the same memory."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.kept: list[tuple[Any, tuple[Any, ...], dict[str, Any], Any]] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        # As when a graph is captured, what changes memory is not done yet.
        out = args[0] if func._schema.is_mutable else func(*args, **(kwargs or {}))
        self.kept.append((func, args, kwargs or {}, out))
        return out

    def replay(self) -> None:
        for func, args, kwargs, out in self.kept:
            out.copy_(func(*args, **kwargs))


@pytest.fixture(params=["cpu", "cuda"])
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return where graphs are: on a GPU, if there is one, and on a CPU that plays one."""
    name: str = request.param
    if name == "cuda":
        if not torch.cuda.is_available():
            pytest.skip("graphs are a GPU's")
        return name
    stream = SimpleNamespace(wait_stream=lambda _: None)
    for part, stand_in in {
        "Stream": lambda _: stream,
        "current_stream": lambda: stream,
        "stream": nullcontext,
        "device": nullcontext,
        "graph_pool_handle": lambda: None,
        "CUDAGraph": Tape,
        "graph": lambda tape, **_: tape,
    }.items():
        monkeypatch.setattr(torch.cuda, part, stand_in)
    return name


def test_a_graph_does_what_the_step_does_for_each_shape_again_and_again(device: str) -> None:
    total = torch.zeros((), device=device)
    calls = 0

    def step(a: Tensor, b: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        total.add_((a * b).sum())
        return total * 2

    cuda_graph_step = CudaGraphStep(step, device)
    expected = 0.0
    for round_ in range(1, 5):
        for size in (3, 5):
            a, b = torch.full((size,), float(round_)), torch.arange(size, dtype=torch.float32)
            expected += float((a * b).sum())
            assert float(cuda_graph_step(a, b)) == 2 * expected
    assert calls == 4, "of each shape once by itself and once to be captured"
