"""How fast a training learns, step by step, and what its layers draw in each."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import torch

Schedule = Literal["constant", "cosine"]

# Of whatever scales a step: the product of two such numbers is still a float32.
LARGEST = 1e18


def learning_rate(highest: float, schedule: Schedule, step: int, steps: int, warm_up: int) -> float:
    """Return the learning rate of a step (from 0) of `steps`.

    It rises over `warm_up` steps, then stays, or falls to zero along a cosine (Loshchilov and
    Hutter, "SGDR", without restarts).
    """
    rate = highest
    if schedule == "cosine":
        rate *= 0.5 * (1 + math.cos(math.pi * step / steps))
    return rate * min(1.0, (step + 1) / warm_up) if warm_up else rate


def seed_layers(*place: int) -> None:
    """Make what layers draw in training (units and blocks left out) depend on a place alone.

    The place is a seed and the numbers of a step. Torch's own generator would go on from where
    it is, which is elsewhere in a training that was stopped and resumed.
    """
    torch.manual_seed(int(np.random.SeedSequence(place).generate_state(1)[0]))
