"""Paint the rooms over their wall."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from hasse.scenes.drawing.pen import Colour, Pen, shade

WALLS: dict[str, tuple[Colour, ...]] = {
    "kitchen": ((250, 232, 196), (226, 238, 226), (248, 222, 206)),
    "living room": ((196, 214, 206), (232, 212, 190), (200, 208, 226)),
    "classroom": ((238, 226, 236), (226, 236, 242), (244, 236, 212)),
}


def _floor(pen: Pen, top: float, colour: Colour) -> None:
    pen.box(-1, -1, 101, top, colour)
    pen.box(-1, top - 0.6, 101, top + 1.0, (250, 248, 244))


def _kitchen(pen: Pen, rng: Random) -> None:
    _floor(pen, 30, (216, 208, 196))
    for row in range(4):
        for k in range(8):
            if (row + k) % 2:
                x, y = k * 14 - 6, row * 7.3
                tile = ((x, y), (x + 14, y), (x + 14, y + 7.3), (x, y + 7.3))
                pen.polygon(tile, (196, 188, 178))
    front = rng.choice(((120, 168, 166), (150, 176, 140), (176, 150, 140)))
    pen.box(-2, 30, 70, 47, front)
    for k in range(4):
        pen.box(k * 18, 32, k * 18 + 15, 45, shade(front, 1.12), radius=1, rim=True)
    pen.box(-2, 46, 72, 49.5, (240, 238, 234), rim=True)
    pen.box(74, 30, 97, 74, (226, 234, 240), radius=2, rim=True)
    pen.line(((74.6, 55), (96.4, 55)), 0.6, (160, 172, 182))
    pen.line(((77.6, 59), (77.6, 66)), 1.0, (140, 152, 162))
    pen.line(((77.6, 44), (77.6, 51)), 1.0, (140, 152, 162))
    for x in (2, 26):
        pen.box(x, 68, x + 21, 88, shade(front, 1.12), radius=1, rim=True)
    pen.box(51, 62, 71, 86, (176, 216, 240), radius=1, rim=True)
    pen.line(((61, 62), (61, 86)), 1.0, (250, 250, 250))


def _living_room(pen: Pen, rng: Random) -> None:
    _floor(pen, 30, (190, 146, 106))
    for y in (6, 13, 20):
        pen.line(((-1, y), (101, y)), 0.4, (172, 128, 92))
    pen.oval(50, 13, 42, 9, rng.choice(((190, 120, 116), (126, 134, 170), (150, 150, 120))))
    pen.oval(50, 13, 36, 7, (226, 206, 186))
    left = rng.random() < 0.5
    hearth, window = (8, 62) if left else (58, 8)
    pen.box(hearth, 30, hearth + 32, 56, (190, 120, 100), rim=True)
    for row in range(4):
        for k in range(4):
            x, y = hearth + k * 8 + row % 2 * 4, 33 + row * 6
            pen.line(((x, y), (x + 3, y)), 0.6, (160, 96, 80))
    pen.box(hearth + 8, 30, hearth + 24, 47, (60, 46, 46))
    fire = ((11, 30.5), (13, 40), (16, 35), (19, 41), (21, 30.5))
    pen.moved(hearth, 0).polygon(fire, (255, 160, 60))
    pen.box(hearth - 2, 55, hearth + 34, 58.5, (240, 232, 222), rim=True)
    pen.box(hearth + 8, 66, hearth + 25, 84, (150, 110, 76), rim=True)
    pen.box(hearth + 10, 68, hearth + 23, 82, (206, 222, 232))
    pen.box(window, 52, window + 28, 86, (170, 214, 240), rim=True)
    pen.line(((window + 14, 52), (window + 14, 86)), 1.2, (250, 250, 250))
    pen.line(((window, 69), (window + 28, 69)), 1.2, (250, 250, 250))
    for x in (window - 3, window + 25):
        pen.box(x, 48, x + 6, 90, (206, 160, 150), radius=1)


def _classroom(pen: Pen, rng: Random) -> None:
    _floor(pen, 30, (206, 186, 158))
    for y in (8, 17, 24):
        pen.line(((-1, y), (101, y)), 0.4, (190, 168, 140))
    pen.box(14, 48, 86, 86, (150, 106, 74), radius=1, rim=True)
    pen.box(16.5, 50.5, 83.5, 83.5, (40, 92, 78))
    chalk = (226, 236, 230)
    word = rng.choice(("wave", "sum", "lines"))
    if word == "wave":
        pen.line(((24, 70), (32, 76), (40, 68), (48, 76), (56, 68)), 0.7, chalk)
    elif word == "sum":
        for x in (26, 38, 50):
            pen.ring(x, 72, 3.4, 0.7, chalk)
    else:
        for y in (66, 71, 76):
            pen.line(((24, y), (54, y)), 0.7, chalk)
    pen.polygon(((66, 58), (76, 58), (71, 68)), chalk)
    pen.polygon(((67.6, 59), (74.4, 59), (71, 65.6)), (40, 92, 78))
    for x in (2, 89):
        pen.box(x, 60, x + 9, 82, (250, 244, 222), rim=True)
        drawing = rng.choice(((150, 190, 206), (206, 170, 150), (170, 196, 150)))
        pen.box(x + 2, 66, x + 7, 78, drawing)


INDOORS: dict[str, Callable[[Pen, Random], None]] = {
    "kitchen": _kitchen,
    "living room": _living_room,
    "classroom": _classroom,
}
