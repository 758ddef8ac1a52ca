"""Place the groups of a scene side by side: related entities together, others clearly apart."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from hasse.scenes.layout import Group, groups
from hasse.scenes.scene import Situation

WIDEST = 99.0  # what all groups together may need of the width
GAP = 11.0  # between unrelated groups; related neighbours nearly touch
HEADROOM = 86.0  # above the ground


def width(situation: Situation) -> float:
    """Return the stretch of ground that all groups need, with the gaps between them."""
    laid = groups(situation)
    return sum(group.right - group.left for group in laid) + GAP * (len(laid) - 1)


@dataclass(frozen=True, slots=True)
class PlacedGroup:
    """A group at its place in the picture: origin, scale and direction."""

    group: Group
    x: float
    scale: float
    facing: int


def arrange(situation: Situation, rng: Random) -> list[PlacedGroup]:
    """Spread the groups over the picture's width (0 to 100), each facing left or right."""
    laid = groups(situation)
    rng.shuffle(laid)
    needed = sum(group.right - group.left for group in laid) + GAP * (len(laid) - 1)
    tallest = max((group.top for group in laid), default=1.0)
    nearest = 1.2 if len(laid) == 1 else 1.12
    scale = min(rng.uniform(0.98, nearest), 98.0 / max(needed, 1.0), HEADROOM / tallest)
    spare = max(0.0, 99.0 - needed * scale)
    shares = [rng.uniform(0.4, 1.0) for _ in range(len(laid) + 1)]
    at = 0.5
    placed: list[PlacedGroup] = []
    for group, share in zip(laid, shares, strict=False):
        at += spare * share / sum(shares)
        facing = rng.choice((-1, 1))
        start = -group.left if facing == 1 else group.right
        placed.append(PlacedGroup(group, at + start * scale, scale, facing))
        at += (group.right - group.left + GAP) * scale
    return placed
