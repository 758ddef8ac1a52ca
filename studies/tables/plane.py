"""Words and pictures of a model in two dimensions, drawn as SVG (Kiros et al., 2014, Figure 5)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from hasse.models.embedding_model import Points
from hasse.studies.plotter import LARGE, figure, label

SIDE = 96  # pixels of a picture's longer side

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


def draw(places: Places, texts: Sequence[str], pictures: Sequence[Image.Image], out: Path) -> None:
    """Draw texts at the first places and pictures at the others, as SVG."""
    from matplotlib.offsetbox import AnnotationBbox, OffsetImage

    title = f"{len(texts)} texts and {len(pictures)} pictures in a plane"
    with figure(out, title, LARGE) as axes:
        axes.set_axis_off()
        axes.margins(0.1)
        axes.plot(*places.T, linestyle="none")
        for picture, place in zip(pictures, places[len(texts) :].tolist(), strict=True):
            small = picture.convert("RGB")
            small.thumbnail((SIDE, SIDE))
            box = AnnotationBbox(OffsetImage(np.asarray(small)), place, frameon=False)
            box.set_in_layout(False)
            axes.add_artist(box)
        for text, (x, y) in zip(texts, places[: len(texts)].tolist(), strict=True):
            label(axes, x, y, text)
