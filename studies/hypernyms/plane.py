"""A small hierarchy as points of a plane, to look at (Vendrov et al., Figure 2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hasse.studies.hypernyms.taxonomy import Edges, HypernymError, Taxonomy
from hasse.studies.plotter import LARGE, figure, label

STARTS = 32  # trainings from other random points, all at once; the best is kept
STEPS = 1000
LEARNING_RATE = 0.1
SPREAD = 5.0  # points start between 0 and this
PULL = 4.0  # a true pair weighs as much as so many false ones
TOLERANCE = 0.1  # a shortfall below it is none; false pairs are to fall short by 1
MAXIMUM = 60  # concepts; more cannot be read
TRUE, SPURIOUS = "#2e8b57", "#e0559f"


@dataclass(frozen=True, slots=True)
class Plane:
    """A picture's worth of concepts.

    Attributes:
        names: (C,) of the concepts.
        points: (C, 2), learned; the general near the origin.
        true: (n, 2) pairs of the hierarchy that need no other to be inferred.
        missed: those of them that the points do not show.
        spurious: (m, 2) pairs in order that the hierarchy does not have, reduced likewise.
    """

    names: tuple[str, ...]
    points: NDArray[np.float32]
    true: Edges
    missed: Edges
    spurious: Edges


def learn_plane(
    taxonomy: Taxonomy,
    concepts: Sequence[int],
    seed: int = 0,
    report: Callable[[int, int], None] = lambda done, total: None,
    steps: int = STEPS,
) -> Plane:
    """Learn points in two dimensions for a few concepts, with all true and all false pairs.

    Raises:
        HypernymError: there are fewer than two concepts, or too many to be read; or torch takes
            no such seed.
    """
    if not 0 <= seed < 2**63:
        raise HypernymError("a seed is a whole number from 0 to 2^63 - 1")
    chosen = list(dict.fromkeys(concepts))
    if not 2 <= len(chosen) <= MAXIMUM:
        raise HypernymError(f"a plot shows from 2 to {MAXIMUM} concepts, not {len(chosen)}")
    true = _true_pairs(taxonomy, chosen)
    return best_plane(taxonomy, chosen, _learn(torch.from_numpy(true), seed, report, steps))


def best_plane(taxonomy: Taxonomy, chosen: Sequence[int], learned: Tensor) -> Plane:
    """Return the one of several (starts, C, 2) that shows the fewest pairs wrongly."""
    true = _true_pairs(taxonomy, chosen)
    mistakes = (_in_order(learned) != true).sum((1, 2))
    best = learned[int(mistakes.argmin())]
    shown = _in_order(best)
    return Plane(
        tuple(taxonomy.concepts[concept].name for concept in chosen),
        best.numpy(),
        np.argwhere(_reduced(true)),
        np.argwhere(_reduced(true) & ~shown),
        np.argwhere(_reduced(true | shown) & ~true),
    )


def _true_pairs(taxonomy: Taxonomy, chosen: Sequence[int]) -> NDArray[np.bool_]:
    above = [taxonomy.ancestors(concept) for concept in chosen]
    return np.array([[other in up for other in chosen] for up in above])  # (below, above)


def _learn(true: Tensor, seed: int, report: Callable[[int, int], None], steps: int) -> Tensor:
    """Descend the loss from many starts at once, all pairs in every step: -> (starts, C, 2)."""
    draw = torch.Generator().manual_seed(seed)
    points = SPREAD * torch.rand(STARTS, len(true), 2, generator=draw)
    points.requires_grad_()
    false = ~true & ~torch.eye(len(true), dtype=torch.bool)
    optimizer = torch.optim.Adam([points], LEARNING_RATE)
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = LEARNING_RATE * (1 - step / steps)
        gap = points[:, None] - points[:, :, None]  # (starts, below, above, 2)
        pull = (gap.clamp(min=0) * true[..., None]).sum()
        push = ((1 - gap.amax(-1)).clamp(min=0) * false).sum()
        optimizer.zero_grad(set_to_none=True)
        (PULL * pull + push).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        with torch.no_grad():
            points.clamp_(min=0)
        if step % 50 == 0:
            report(step, steps)
    return points.detach()


def _in_order(points: Tensor) -> NDArray[np.bool_]:
    """Tell which pairs are in order and not one point: (.., C, 2) -> (.., below, above)."""
    gap = (points[..., None, :, :] - points[..., :, None, :]).amax(-1)
    shown = (gap < TOLERANCE).numpy()
    return np.asarray(shown & ~shown.swapaxes(-1, -2))


def _reduced(order: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Remove the pairs that two others imply: the covering relation remains."""
    steps = order.astype(np.int64)
    return np.asarray(order & ~((steps @ steps) > 0))


def draw(plane: Plane, out: Path) -> None:
    """Draw the picture as SVG; the most general concept is at the top left, the origin."""
    places = rank_places(plane.points)
    missed = {tuple(pair) for pair in plane.missed.tolist()}
    with figure(out, f"{len(plane.names)} concepts in a learned order", LARGE) as axes:
        axes.set_axis_off()
        axes.invert_yaxis()
        axes.margins(0.1)
        axes.plot(*places.T, "o", color="#333")
        for pairs, colour in ((plane.true, TRUE), (plane.spurious, SPURIOUS)):
            for below, above in pairs.tolist():
                arrow = {
                    "arrowstyle": "-|>",
                    "color": colour,
                    "linestyle": "--" if (below, above) in missed else "-",
                }
                ends = tuple(places[above]), tuple(places[below])
                axes.annotate("", *ends, arrowprops=arrow)
        for name, (x, y) in zip(plane.names, places.tolist(), strict=True):
            label(axes, x, y, name, above=7)


def rank_places(points: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return places from 0 to 1, each coordinate by its rank: (C, 2) -> (C, 2).

    The order depends on ranks alone, and names keep apart.
    """
    ranks = np.empty(points.shape)
    for axis in range(2):
        # Coordinates that differ by less than can be learned are one.
        rounded = np.round(points[:, axis].astype(np.float64), 2)
        ranks[:, axis] = np.unique(rounded, return_inverse=True)[1]
    return np.asarray(ranks / np.maximum(ranks.max(0), 1))
