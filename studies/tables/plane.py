"""Words and pictures of a model in two dimensions, drawn as SVG (Kiros et al., 2014, Figure 5)."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape
from io import BytesIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from hasse.models.model import Points

WIDTH, HEIGHT, EDGE, SIDE = 960, 720, 90, 72

Places = NDArray[np.float64]


def principal_plane(points: Points) -> tuple[Places, float]:
    """Project points on their two principal components: (n, N) -> (n, 2).

    Also returns the share of their variance that the plane shows, from 0 to 1.
    """
    centred = points.astype(np.float64) - points.mean(0)
    left, values, _ = np.linalg.svd(centred, full_matrices=False)
    places = np.zeros((len(points), 2))
    kept = min(2, len(values))
    places[:, :kept] = left[:, :kept] * values[:kept]
    total = np.square(values).sum()
    return places, float(np.square(values[:kept]).sum() / total) if total > 0 else 1.0


def draw(places: Places, texts: Sequence[str], pictures: Sequence[Image.Image]) -> str:
    """Draw texts at the first places and pictures at the others, as SVG."""
    low, high = places.min(0), places.max(0)
    span = np.where(high > low, high - low, 1)
    room = np.array([WIDTH, HEIGHT]) - 2 * EDGE
    at = EDGE + (places - low) / span * room
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'font-family="sans-serif" font-size="17">',
        f"<title>{len(texts)} texts and {len(pictures)} pictures in a plane</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    for picture, (x, y) in zip(pictures, at[len(texts) :].tolist(), strict=True):
        small = picture.convert("RGB")
        small.thumbnail((2 * SIDE, 2 * SIDE))
        width, height = (SIDE * side / max(small.size) for side in small.size)
        out = BytesIO()
        small.save(out, "JPEG", quality=85)
        data = base64.b64encode(out.getvalue()).decode()
        lines.append(
            f'<image x="{x - width / 2:.1f}" y="{y - height / 2:.1f}" width="{width:.1f}" '
            f'height="{height:.1f}" href="data:image/jpeg;base64,{data}"/>'
        )
    for text, (x, y) in zip(texts, at[: len(texts)].tolist(), strict=True):
        lines.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle" dominant-baseline="middle" '
            f'stroke="white" stroke-width="5" paint-order="stroke">{escape(text)}</text>'
        )
    return "\n".join([*lines, "</svg>", ""])
