"""A plane of concepts as a picture: arrows from the specific to the general, as SVG."""

from __future__ import annotations

from html import escape

import numpy as np
from numpy.typing import NDArray

from hasse.studies.hypernyms.plane import Plane

WIDTH, HEIGHT, EDGE = 960, 720, 70
TRUE, SPURIOUS = "#2e8b57", "#e0559f"


def draw(plane: Plane) -> str:
    """Return the picture; the most general concept is at the top left, the origin.

    Coordinates are shown by their rank: the order depends on nothing else, and names keep apart.
    """
    places = _places(plane.points)
    missed = {tuple(pair) for pair in plane.missed.tolist()}
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'font-family="sans-serif" font-size="15">',
        f"<title>{len(plane.names)} concepts in a learned order</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        "<defs>" + _head("true", TRUE) + _head("spurious", SPURIOUS) + "</defs>",
    ]
    for below, above in plane.true.tolist():
        dashes = ' stroke-dasharray="6 5"' if (below, above) in missed else ""
        lines.append(_arrow(places[below], places[above], "true", TRUE, dashes))
    for below, above in plane.spurious.tolist():
        lines.append(_arrow(places[below], places[above], "spurious", SPURIOUS, ""))
    for name, (x, y) in zip(plane.names, places.tolist(), strict=True):
        lines.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="#333"/>')
        lines.append(
            f'<text x="{x:.1f}" y="{y - 9:.1f}" text-anchor="middle" stroke="white" '
            f'stroke-width="4" paint-order="stroke">{escape(name)}</text>'
        )
    return "\n".join([*lines, "</svg>", ""])


def _places(points: NDArray[np.float32]) -> NDArray[np.float64]:
    """Turn points (C, 2) into places of the picture (C, 2): each coordinate by its rank."""
    ranks = np.empty(points.shape)
    for axis in range(2):
        # Coordinates that differ by less than can be learned are one.
        rounded = np.round(points[:, axis].astype(np.float64), 2)
        ranks[:, axis] = np.unique(rounded, return_inverse=True)[1]
    span = np.maximum(ranks.max(0), 1)
    room = np.array([WIDTH, HEIGHT]) - 2 * EDGE
    return np.asarray(EDGE + ranks / span * room)


def _head(name: str, colour: str) -> str:
    return (
        f'<marker id="{name}" viewBox="0 0 8 8" refX="14" refY="4" markerWidth="7" '
        f'markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z" fill="{colour}"/></marker>'
    )


def _arrow(
    start: NDArray[np.float64], end: NDArray[np.float64], kind: str, colour: str, more: str
) -> str:
    return (
        f'<line x1="{start[0]:.1f}" y1="{start[1]:.1f}" x2="{end[0]:.1f}" y2="{end[1]:.1f}" '
        f'stroke="{colour}" stroke-width="1.6" marker-end="url(#{kind})"{more}/>'
    )
