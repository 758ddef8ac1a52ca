"""A training step on a GPU as one launch.

A step is hundreds of small kernels, and launching one takes the processor longer than most of them
take the GPU. A CUDA graph launches them all at once, for inputs of one shape.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

# Captions are padded to multiples of so many words: few shapes, and little padding.
WORDS_MULTIPLE = 4


class _Captured(NamedTuple):
    graph: torch.cuda.CUDAGraph
    inputs: tuple[Tensor, ...]
    result: Tensor


class CudaGraphStep:
    """Call a step with inputs from the CPU, in a graph from the second time of a shape on.

    The first step of a shape is an ordinary one: it compiles kernels, chooses algorithms and
    makes the optimiser's state, none of which can be part of a graph.
    """

    def __init__(self, step: Callable[..., Tensor], device: str) -> None:
        self._step, self._device = step, torch.device(device)
        # One stream for all, as autograd sums up a gradient on the stream it first saw; one pool,
        # as no two graphs run at a time and nothing but results, read before the next, outlives.
        self._stream = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call] # torch's
        self._pool = torch.cuda.graph_pool_handle()
        self._captured: dict[tuple[torch.Size, ...], _Captured | None] = {}

    def __call__(self, *inputs: Tensor) -> Tensor:
        """Do the step on inputs of any shapes; its result is there until the next call.

        The GPU may still be at work on it. Inputs in pinned memory are not waited for either.
        """
        with torch.cuda.device(self._device):
            around = torch.cuda.current_stream()
            self._stream.wait_stream(around)
            with torch.cuda.stream(self._stream):
                result = self._run(inputs)
            around.wait_stream(self._stream)
        return result

    def _run(self, inputs: tuple[Tensor, ...]) -> Tensor:
        shapes = tuple(value.shape for value in inputs)
        if shapes not in self._captured:
            self._captured[shapes] = None
            return self._step(*(v.to(self._device, non_blocking=True) for v in inputs))
        captured = self._captured[shapes] or self._capture(inputs)
        self._captured[shapes] = captured
        for place, value in zip(captured.inputs, inputs, strict=True):
            place.copy_(value, non_blocking=True)
        captured.graph.replay()
        return captured.result

    def _capture(self, inputs: tuple[Tensor, ...]) -> _Captured:
        places = tuple(torch.empty_like(value, device=self._device) for value in inputs)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool, stream=self._stream):
            result = self._step(*places)
        return _Captured(graph, places, result)
