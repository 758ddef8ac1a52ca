"""Draw birds, in hundredths of the picture's side, each facing right."""

from __future__ import annotations

from collections.abc import Callable

from hasse.scenes.drawing.palette import BEAK, DARK
from hasse.scenes.drawing.pen import Colour, Pen, shade


def _hen(pen: Pen, coat: Colour, _pose: str) -> None:
    for x in (-0.6, 1.2):
        pen.line(((x, 3.4), (x, 0.4), (x + 1.4, 0.2)), 0.7, BEAK)
    back = ((-7.6, 11.6), (-4.4, 8.6), (0.6, 7.6), (2.2, 12.4))
    breast = ((5.2, 12.4), (5.4, 6.4), (2.4, 3.2), (-3.4, 3.4), (-6.6, 7.0))
    pen.blob((*back, *breast), coat)
    pen.oval(-1.2, 6.4, 3.2, 2.0, shade(coat, 0.86))
    for x in (2.4, 3.8, 5.0):
        pen.disc(x, 14.2, 1.2, (214, 44, 50))
    pen.polygon(((5.4, 12.4), (7.8, 11.4), (5.4, 10.8)), BEAK)
    pen.oval(5.6, 9.8, 0.8, 1.3, (214, 44, 50))
    pen.disc(4.2, 12.2, 0.7, DARK)


def _duck(pen: Pen, coat: Colour, pose: str) -> None:
    body = pen.moved(0, -2.6) if pose == "swim" else pen
    if pose != "swim":
        pen.line(((0.4, 3.0), (0.4, 0.4), (2.0, 0.3)), 0.9, BEAK)
    back = ((-8.0, 8.2), (-4.4, 6.6), (1.6, 7.4), (5.6, 6.2))
    body.blob((*back, (4.2, 2.6), (-4.2, 2.6)), coat)
    body.oval(-0.8, 5.0, 3.2, 1.7, shade(coat, 0.84))
    body.line(((4.2, 6.0), (4.6, 9.6)), 2.6, coat)
    body.disc(4.8, 11.0, 2.7, coat, rim=True)
    body.polygon(((6.8, 11.6), (10.4, 10.6), (6.8, 9.6)), BEAK)
    body.disc(5.6, 11.6, 0.7, DARK if sum(coat) > 330 else (250, 250, 250))
    if pose == "swim":
        for width, y in ((9.0, 0.0), (11.0, -1.2)):
            pen.line(((-width, y), (width, y)), 0.7, (226, 242, 250))


def _parrot(pen: Pen, coat: Colour, _pose: str) -> None:
    pen.polygon(((-4, 0.6), (-11, -3.0), (-10, -5.0), (-3, -2.0)), shade(coat, 0.7), rim=True)
    pen.blob(((-2.6, 1.4), (-7.6, 9.8), (-1.0, 8.6), (3.2, 1.6)), shade(coat, 0.8))
    pen.blob(((-5.0, -1.8), (-1.0, 2.6), (4.0, 3.0), (6.6, 1.4), (4.0, -2.2), (-1.0, -3.2)), coat)
    pen.blob(((-0.4, 0.8), (-2.0, 10.4), (5.2, 8.0), (4.6, 1.0)), coat)
    pen.polygon(((-1.4, 8.8), (-1.9, 10.3), (5.0, 8.2), (5.0, 6.6)), (252, 214, 44))
    pen.disc(6.4, 2.4, 3.0, coat, rim=True)
    pen.disc(7.2, 2.8, 1.4, (248, 248, 246))
    pen.disc(7.4, 2.9, 0.7, DARK)
    pen.blob(((8.8, 3.4), (11.0, 2.2), (10.0, 0.4), (8.6, 1.4)), DARK, rim=False)


def _penguin(pen: Pen, _coat: Colour, _pose: str) -> None:
    body: Colour = (44, 48, 62)
    for x in (-2.0, 2.0):
        pen.oval(x + 0.6, 0.8, 2.2, 1.0, BEAK)
    pen.oval(-5.4, 8.4, 1.7, 5.2, body)
    pen.oval(5.4, 8.4, 1.7, 5.2, body)
    pen.oval(0, 8.4, 5.8, 7.8, body)
    pen.oval(0.6, 7.4, 4.0, 6.2, (248, 248, 248))
    pen.disc(0.4, 16.4, 4.0, body)
    pen.oval(1.6, 16.0, 2.4, 2.6, (248, 248, 248))
    pen.polygon(((3.2, 16.6), (7.2, 15.4), (3.2, 14.4)), BEAK)
    pen.disc(1.8, 17.0, 0.75, DARK)


BIRDS: dict[str, Callable[[Pen, Colour, str], None]] = {
    "hen": _hen,
    "duck": _duck,
    "parrot": _parrot,
    "penguin": _penguin,
}
