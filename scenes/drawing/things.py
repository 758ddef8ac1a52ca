"""Draw things, in hundredths of the picture's side, each facing right."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

from hasse.scenes.drawing.palette import DARK, METAL, WOOD, dye
from hasse.scenes.drawing.pen import Colour, Pen, shade
from hasse.scenes.scene import Entity

Circle = tuple[float, float, float]  # x, y, radius

LEAF: Colour = (74, 142, 70)
GLASS: Colour = (196, 226, 240)


def draw_thing(pen: Pen, entity: Entity, rng: Random, *, held: bool) -> None:
    """Draw a thing at the pen's origin; `held` things hang from the origin or stand on it."""
    fill = dye(entity.colour, rng) if entity.colour else WOOD
    if entity.kind == "umbrella":
        _umbrella(pen, fill, held=held)
    elif entity.kind == "flower":
        _flower(pen, fill, held=held)
    else:
        _DRAWERS[entity.kind](pen, fill)


def _car(pen: Pen, fill: Colour) -> None:
    hood = ((-14, 12), (0, 12.4), (14, 11.6), (20.6, 9.4))
    pen.blob(((-21, 4), (-21, 10), *hood, (21, 4), (0, 3.2)), fill)
    pen.blob(((-14, 11), (-9.6, 19), (-1, 20), (6.4, 18.6), (12.6, 11)), fill)
    pen.polygon(((-11.6, 12), (-8.2, 17.6), (-2.2, 18.2), (-2.2, 12)), GLASS)
    pen.polygon(((-0.4, 12), (-0.4, 18.2), (5.2, 17.2), (9.8, 12)), GLASS)
    pen.line(((-1.3, 11.4), (-1.3, 5.4)), 0.5, shade(fill, 0.75))
    pen.oval(20, 8.4, 1.0, 1.3, (255, 240, 170))
    for x in (-12.4, 12.4):
        pen.disc(x, 4.2, 4.6, DARK)
        pen.disc(x, 4.2, 2.1, (206, 210, 216))


def _bicycle(pen: Pen, fill: Colour) -> None:
    for x in (-10.4, 10.4):
        pen.ring(x, 7.4, 7.4, 1.1, DARK)
        for spoke in range(3):
            dx, dy = 6.6 * math.cos(spoke * 1.05), 6.6 * math.sin(spoke * 1.05)
            pen.line(((x - dx, 7.4 - dy), (x + dx, 7.4 + dy)), 0.25, METAL)
    pen.line(((-10.4, 7.4), (-4.4, 16.6), (7.4, 17.0), (0.4, 6.4), (-10.4, 7.4)), 1.9, fill)
    pen.line(((0.4, 6.4), (-5.0, 18.6)), 1.9, fill)
    pen.line(((10.4, 7.4), (6.8, 20.6), (9.4, 22.4)), 1.7, fill)
    pen.line(((-7.2, 19.2), (-2.8, 19.2)), 1.9, DARK)
    pen.disc(0.4, 6.4, 1.6, METAL)
    pen.line(((0.4, 6.4), (2.6, 3.2), (4.2, 3.2)), 0.8, DARK)


def _boat(pen: Pen, fill: Colour) -> None:
    pen.blob(((-20.6, 10), (0, 7.6), (20.6, 10.6), (15.4, 0.6), (0, -0.8), (-15.4, 0.6)), fill)
    pen.line(((-19.4, 9.4), (0, 7.4), (19.4, 9.8)), 1.3, shade(fill, 1.5))
    pen.line(((2.0, 11.0), (10.4, -1.0)), 0.9, WOOD)
    for width, y in ((19.0, -0.6), (23.0, -2.0)):
        pen.line(((-width, y), (width, y)), 0.8, (226, 242, 250))


def _sled(pen: Pen, fill: Colour) -> None:
    pen.line(((-12, 0.8), (9.4, 0.8), (12.4, 2.6), (13.0, 5.0)), 1.2, METAL)
    for x in (-8.0, 6.0):
        pen.line(((x, 1.0), (x, 5.0)), 1.2, METAL)
    pen.box(-13.6, 4.4, 11.6, 8.4, fill, radius=1.4, rim=True)


def _ball(pen: Pen, fill: Colour) -> None:
    pen.disc(0, 4.4, 4.4, fill, rim=True)
    pen.oval(-1.3, 6.0, 1.3, 0.9, shade(fill, 1.7))
    pen.line(((-4.0, 3.6), (0.0, 2.6), (4.0, 3.6)), 0.7, (250, 250, 250))


def _kite(pen: Pen, fill: Colour) -> None:
    pen.line(((-1.0, -8.4), (-4.0, -11.6), (-1.6, -14.0), (-5.0, -17.4)), 0.6, (246, 246, 240))
    for x, y in ((-4.0, -11.6), (-1.6, -14.0), (-5.0, -17.4)):
        bow = ((x - 2, y + 1), (x + 2, y - 1), (x + 2, y + 1), (x - 2, y - 1))
        pen.polygon(bow, fill)
    pen.polygon(((0.6, 9.0), (7.6, 1.6), (-1.0, -8.6), (-7.0, 0.6)), fill, rim=True)
    pen.polygon(((0.6, 9.0), (7.6, 1.6), (0.0, 1.0)), shade(fill, 1.35))
    pen.polygon(((-1.0, -8.6), (-7.0, 0.6), (0.0, 1.0)), shade(fill, 0.84))


def _balloon(pen: Pen, fill: Colour) -> None:
    pen.line(((0, 0), (0.8, 4.0), (0, 8.6)), 0.5, (246, 246, 240))
    pen.polygon(((-1.1, 7.6), (1.1, 7.6), (0, 9.2)), shade(fill, 0.8))
    pen.oval(0, 14.6, 5.2, 6.2, fill, rim=True)
    pen.oval(-1.8, 17.2, 1.2, 1.7, shade(fill, 1.65))


def _bench(pen: Pen, fill: Colour) -> None:
    for x in (-13.0, 13.0):
        pen.line(((x, 22.0), (x, 0.6)), 1.6, shade(METAL, 0.7))
    for y in (15.6, 19.4):
        pen.box(-16.4, y, 16.4, y + 2.7, fill, radius=0.7, rim=True)
    pen.box(-17.0, 10.0, 17.0, 12.8, shade(fill, 1.12), radius=0.8, rim=True)
    for x in (-14.4, 14.4):
        pen.line(((x, 10.0), (x, 0.4)), 1.7, shade(METAL, 0.7))


def _chair(pen: Pen, fill: Colour) -> None:
    dark = shade(fill, 0.78)
    for x in (-6.0, 5.0):
        pen.line(((x + 1.2, 11.0), (x + 1.2, 0.8)), 1.3, dark)
    pen.line(((-6.6, 30.0), (-6.6, 0.5)), 1.8, fill)
    pen.line(((6.6, 12.0), (6.6, 0.5)), 1.8, fill)
    pen.box(-7.8, 17.0, -5.2, 30.4, fill, radius=1.1, rim=True)
    pen.box(-7.8, 10.4, 8.0, 13.2, fill, radius=1.1, rim=True)


def _table(pen: Pen, fill: Colour) -> None:
    for x in (-10.6, 10.6):
        pen.line(((x, 17.4), (x, 1.6)), 1.6, shade(fill, 0.7))
    for x in (-14.6, 14.6):
        pen.line(((x, 17.4), (x, 0.5)), 2.0, shade(fill, 0.85))
    pen.box(-17.4, 17.0, 17.4, 20.4, shade(fill, 1.12), radius=1.0, rim=True)


def _tree(pen: Pen, fill: Colour) -> None:
    crown = (86, 156, 70) if fill[1] > fill[0] else (232, 140, 44)
    trunk = ((-3.4, 0), (-2.4, 14), (-2.2, 34), (2.2, 34), (2.4, 14), (3.6, 0), (0, 0.8))
    pen.blob(trunk, (122, 82, 56))
    dark: tuple[Circle, ...] = (
        (-8, 42, 10),
        (8.4, 41, 9.6),
        (-4, 54, 10),
        (5.4, 54, 10),
        (0, 62, 9),
    )
    light: tuple[Circle, ...] = (
        (-7, 44, 8.4),
        (7.4, 43, 8),
        (-3, 55, 8.4),
        (4.6, 55.4, 8),
        (0, 48, 9),
        (0.4, 62.4, 7),
    )
    for x, y, r in dark:
        pen.disc(x, y, r, shade(crown, 0.84))
    for x, y, r in light:
        pen.disc(x, y, r, crown)
    for x, y in ((-6.0, 48.0), (2.0, 58.0), (6.0, 46.0)):
        pen.disc(x, y, 2.6, shade(crown, 1.22))


def _umbrella(pen: Pen, fill: Colour, *, held: bool) -> None:
    top, reach, handle = (25.0, 13.5, -5.0) if held else (50.0, 19.0, 0.0)
    pen.line(((0, handle), (0, top)), 0.8 if held else 1.2, DARK if held else (240, 236, 226))
    rise = reach * 0.72
    low = top - rise
    pen.pie(0, low, reach, rise, fill, start=180, end=360)
    pen.pie(0, low, reach * 0.42, rise, shade(fill, 1.3), start=180, end=360)
    for k in range(4):
        centre = -reach + reach * (k + 0.5) / 2
        pen.pie(centre, low, reach / 4, rise * 0.16, shade(fill, 0.72), start=180, end=360)
    pen.line(((0, top - 0.4), (0, top + 1.8)), 0.9, DARK)


def _flower(pen: Pen, fill: Colour, *, held: bool) -> None:
    low, high = (-4.0, 6.4) if held else (0.0, 11.0)
    pen.line(((0, low), (0.6, (low + high) / 2), (0, high)), 1.0, LEAF)
    for side in (-1, 1):
        pen.oval(side * 2.0, low + 3.4, 2.0, 1.0, LEAF)
    for k in range(6):
        angle = k * math.pi / 3 + 0.3
        pen.disc(2.7 * math.cos(angle), high + 2.7 * math.sin(angle), 2.1, fill, rim=True)
    heart = (252, 214, 44) if fill[2] > 90 or fill[1] < 110 else (120, 74, 40)
    pen.disc(0, high, 1.9, heart)


def _book(pen: Pen, fill: Colour) -> None:
    cover = ((-6.0, -0.6), (0, -1.6), (6.0, -0.6), (6.4, 8.2), (0, 6.8), (-6.4, 8.2))
    pages = ((-5.0, 8.6), (0, 7.4), (5.0, 8.6), (4.4, 9.8), (0, 8.2), (-4.4, 9.8))
    pen.polygon(cover, fill, rim=True)
    pen.polygon(pages, (250, 246, 234))
    pen.line(((0, -1.4), (0, 7.0)), 0.6, shade(fill, 0.65))
    pen.line(((1.8, 2.6), (4.4, 3.2)), 0.8, (250, 246, 234))


def _cup(pen: Pen, fill: Colour) -> None:
    pen.ring(4.0, 3.9, 2.3, 1.0, shade(fill, 0.85))
    pen.blob(((-3.8, 7.6), (3.8, 7.6), (3.4, 1.2), (2.2, 0.0), (-2.2, 0.0), (-3.4, 1.2)), fill)
    pen.oval(0, 7.6, 3.9, 1.0, (110, 70, 48))
    for x in (-1.4, 1.2):
        pen.line(((x, 9.6), (x + 0.9, 11.0), (x, 12.6)), 0.5, (250, 250, 250))


def _cake(pen: Pen, _fill: Colour) -> None:
    pen.oval(0, 0.7, 8.6, 1.3, (232, 232, 236))
    pen.box(-6.6, 0.8, 6.6, 7.4, (150, 92, 62), radius=0.8, rim=True)
    pen.box(-6.8, 5.0, 6.8, 8.6, (255, 226, 226), radius=1.4)
    for x in (-4.6, -1.4, 1.8, 5.0):
        pen.oval(x, 4.8, 1.3, 1.7, (255, 226, 226))
    pen.line(((0, 8.6), (0, 12.4)), 0.9, (120, 190, 230))
    pen.oval(0, 13.6, 0.8, 1.3, (255, 190, 60))
    for x in (-4.0, 4.0):
        pen.disc(x, 9.2, 1.2, (214, 44, 50))


def _snowman(pen: Pen, _fill: Colour) -> None:
    snow: Colour = (250, 252, 255)
    pen.line(((-6, 17), (-13.5, 21.5)), 0.9, (110, 76, 52))
    pen.line(((6, 17), (13.5, 21.5)), 0.9, (110, 76, 52))
    for y, r in ((7.6, 8.6), (19.0, 6.4)):
        pen.disc(0, y, r, snow, rim=True)
    pen.disc(0, 27.6, 4.9, snow, rim=True)
    for y in (9.4, 16.4, 20.4):
        pen.disc(0.6, y, 0.8, DARK)
    pen.box(-5.0, 22.2, 5.0, 24.2, (60, 150, 170), radius=0.9)
    pen.polygon(((0.6, 28.4), (6.6, 26.8), (0.6, 26.2)), (247, 138, 28))
    for x in (-1.2, 2.0):
        pen.disc(x, 29.2, 0.7, DARK)
    pen.box(-5.8, 31.0, 5.8, 32.4, DARK, radius=0.5)
    pen.box(-3.8, 31.6, 3.8, 37.2, DARK, radius=0.5)


_DRAWERS: dict[str, Callable[[Pen, Colour], None]] = {
    "car": _car,
    "bicycle": _bicycle,
    "boat": _boat,
    "sled": _sled,
    "ball": _ball,
    "kite": _kite,
    "balloon": _balloon,
    "bench": _bench,
    "chair": _chair,
    "table": _table,
    "tree": _tree,
    "book": _book,
    "cup": _cup,
    "cake": _cake,
    "snowman": _snowman,
}
