"""One training in several processes, one for each device, as `torchrun` starts them.

Every process draws the same batch and encodes its part of it; the points are exchanged, so that
each compares all images with all captions, as one process would. The gradients are summed, and
all processes take the same step from the same weights.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, distributed

from hasse.models.files import FolderLockedError, lock_folder

LONGEST_WAIT = timedelta(hours=6)  # while the first process reads pictures or validates


@dataclass(frozen=True, slots=True)
class World:
    """The processes of a training.

    Attributes:
        device: torch's name of this process's device.
        rank: number of this process, from 0. The first one alone validates, writes and prints.
        size: number of processes.
    """

    device: str = "cpu"
    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        """Whether this process is the first."""
        return self.rank == 0

    def part(self, count: int) -> NDArray[np.int64]:
        """Return this process's rows of `count`. All processes get as many, and at least two.

        The last processes may repeat the last row, which `gather` drops. One image alone has no
        batch statistics.
        """
        if self.size == 1:
            return np.arange(count)
        share = max(2, -(-count // self.size))
        rows = np.arange(self.rank * share, (self.rank + 1) * share)
        return np.minimum(rows, count - 1)

    def gather(self, points: Tensor, count: int) -> Tensor:
        """Return the points of all processes' parts of `count` rows: (share, N) -> (count, N).

        Gradients flow to this process's own points.
        """
        if self.size == 1:
            return points
        parts = [torch.empty_like(points) for _ in range(self.size)]
        distributed.all_gather(parts, points.detach().contiguous())
        parts[self.rank] = points
        return torch.cat(parts)[:count]

    def sum_gradients(self, weights: Iterable[Tensor]) -> None:
        """Give each weight the sum of its gradients in all processes, in one exchange."""
        if self.size == 1:
            return
        gradients = [weight.grad for weight in weights if weight.grad is not None]
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        distributed.all_reduce(flat)
        pieces = torch.split(flat, [gradient.numel() for gradient in gradients])
        for gradient, piece in zip(gradients, pieces, strict=True):
            gradient.copy_(piece.view_as(gradient))

    def any(self, flag: bool) -> bool:
        """Return whether the flag is true in one of the processes."""
        if self.size == 1:
            return flag
        flag_anywhere = torch.tensor(int(flag), device=self.device)
        distributed.all_reduce(flag_anywhere, distributed.ReduceOp.MAX)
        return bool(flag_anywhere)

    def agree(self, number: int) -> bool:
        """Return whether all processes pass the same number."""
        if self.size == 1:
            return True
        extremes = torch.tensor([number, -number], device=self.device)
        distributed.all_reduce(extremes, distributed.ReduceOp.MAX)
        return int(extremes.sum()) == 0

    def wait(self) -> None:
        """Wait for all processes."""
        if self.size > 1:
            distributed.barrier()

    @contextmanager
    def lock_folder(self, folder: Path) -> Iterator[None]:
        """Lock a folder, as `models.files` does: the first process locks it for all.

        Raises:
            FolderLockedError: another program has locked it. Raised in every process.
        """
        folder.mkdir(parents=True, exist_ok=True)  # in each process, so that all fail alike
        with ExitStack() as stack:
            locked = False
            if self.leads:
                try:
                    stack.enter_context(lock_folder(folder))
                except FolderLockedError:
                    locked = True
            if self.any(locked):
                raise FolderLockedError(folder)
            yield

    @contextmanager
    def in_turn(self) -> Iterator[None]:
        """Run the block in the first process, then in the others, which can use its files."""
        if not self.leads:
            self.wait()
        yield
        if self.leads:
            self.wait()


ALONE = World()


@contextmanager
def world(device: str) -> Iterator[World]:
    """Join the processes of `torchrun`; without it, this process is alone on `device`."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        yield World(device)
        return
    cuda = torch.device(device).type == "cuda"
    if cuda:
        device = f"cuda:{os.environ['LOCAL_RANK']}"
        torch.cuda.set_device(device)
    distributed.init_process_group("nccl" if cuda else "gloo", timeout=LONGEST_WAIT)
    try:
        yield World(device, distributed.get_rank(), size)
    finally:
        distributed.destroy_process_group()
