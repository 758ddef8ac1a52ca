"""Figures as SVG by matplotlib: letters stay letters, and the same data makes the same file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hasse.models.errors import HasseError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SMALL, LARGE = (6.4, 4.0), (9.6, 7.2)  # inches
_STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "hasse",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "font.size": 10,
}


class FiguresError(HasseError):
    """Figures that cannot be drawn; the message says why and what to do."""


def require_matplotlib() -> None:
    """Refuse to draw where matplotlib is not installed (FiguresError)."""
    if find_spec("matplotlib") is None:
        raise FiguresError("plots need matplotlib: pip install matplotlib")


@contextmanager
def figure(out: Path, title: str, size: tuple[float, float] = SMALL) -> Iterator[Axes]:
    """Yield axes to draw on, and write them to a file afterwards.

    Raises:
        FiguresError: matplotlib is not installed.
    """
    require_matplotlib()
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(_STYLE):
        drawn = Figure(size, layout="constrained")
        yield drawn.add_subplot()
        out.parent.mkdir(parents=True, exist_ok=True)
        drawn.savefig(out, format="svg", metadata={"Date": None, "Title": title})


def label(axes: Axes, x: float, y: float, text: str, above: int = 0) -> None:
    """Write a text on white, centred so many points above a place."""
    written = axes.annotate(
        text,
        (x, y),
        (0, above),
        textcoords="offset points",
        ha="center",
        va="bottom" if above else "center",
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
    )
    written.set_in_layout(False)
