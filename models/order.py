"""The partial order of points: the mathematics of all models and searches.

Points live in the non-negative orthant. The *reversed product order* (Vendrov et al.,
"Order-Embeddings of Images and Language", equation 1) says that x precedes y when every
coordinate of x is at least that of y: x is the more specific thing (an image), y the more
general one (a caption of it). The origin is the top: it is true of everything.

The penalty of an ordered pair (equation 2) is

    E(x, y) = || max(0, y - x) ||^2

which is 0 exactly when x precedes y, and grows with every coordinate that y has and x lacks.
It is not symmetric: E(x, y) + E(y, x) = ||x - y||^2.

Shapes: N is the dimension of a point.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Points: TypeAlias = NDArray[Any]  # of floats


def violation(x: Points, y: Points) -> Points:
    """Return E(x, y) over the last dimension: (..., N), (..., N) -> (...), in [0, inf).

    The bits of a row do not depend on the other rows, as they would in a matrix product.
    """
    gaps = y - x
    np.maximum(gaps, 0, out=gaps)
    sums: Points = np.einsum("...n,...n->...", gaps, gaps)
    return sums


def precedes(x: Points, y: Points, tolerance: float = 0.0) -> NDArray[np.bool_]:
    """Return whether x is at least as specific as y: (..., N), (..., N) -> (...).

    `tolerance` is the largest ignored shortfall in one coordinate.
    """
    return np.asarray((x >= y - tolerance).all(-1))


def join(x: Points, y: Points) -> Points:
    """Compose: the most general point that is at least as specific as both (elementwise max)."""
    return np.maximum(x, y)


def meet(x: Points, y: Points) -> Points:
    """Abstract: the most specific point that is at least as general as both (elementwise min)."""
    return np.minimum(x, y)
