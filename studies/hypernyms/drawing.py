"""A plane of concepts as a picture: arrows from the specific to the general."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hasse.studies.hypernyms.plane import Plane
from hasse.studies.tables.plotter import LARGE, figure, label

TRUE, SPURIOUS = "#2e8b57", "#e0559f"


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
