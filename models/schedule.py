"""How fast a training learns, step by step."""

from __future__ import annotations

import math
from typing import Literal

Schedule = Literal["constant", "cosine"]


def learning_rate(highest: float, schedule: Schedule, step: int, steps: int, warm_up: int) -> float:
    """Return the learning rate of a step (from 0) of `steps`.

    It rises over `warm_up` steps, then stays, or falls to zero along a cosine (Loshchilov and
    Hutter, "SGDR", without restarts).
    """
    rate = highest
    if schedule == "cosine":
        rate *= 0.5 * (1 + math.cos(math.pi * step / steps))
    return rate * min(1.0, (step + 1) / warm_up) if warm_up else rate
