"""Paint the places: sky or wall, ground and what is always there."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from PIL import Image, ImageDraw

from models.scenes.palette import mix
from models.scenes.pen import Colour, Pen, shade, star

_SKIES: dict[str, tuple[Colour, Colour]] = {
    "sunny": ((92, 178, 240), (206, 236, 250)),
    "rainy": ((112, 124, 140), (176, 186, 196)),
    "sunset": ((112, 84, 150), (255, 186, 120)),
    "night": ((18, 24, 66), (62, 72, 128)),
}
_LIGHT: dict[str, tuple[Colour, float]] = {
    "sunny": ((255, 255, 255), 0.0),
    "rainy": ((96, 108, 124), 0.3),
    "sunset": ((206, 110, 84), 0.24),
    "night": ((34, 42, 92), 0.48),
}


@dataclass(frozen=True, slots=True)
class Backdrop:
    """A pen over the whole picture (origin bottom left, unit 1/100) and the light on it."""

    pen: Pen
    sky: str
    rng: Random

    def tone(self, colour: Colour) -> Colour:
        """Return a colour as it looks in this light."""
        tint, share = _LIGHT[self.sky]
        return mix(colour, tint, share)

    def hills(self, base: float, swell: float, colour: Colour) -> None:
        """Roll hills from the left to the right edge, filled to the bottom."""
        heights = [base + self.rng.uniform(-swell, swell) for _ in range(5)]
        points = [(-20.0, -10.0), *((-20 + 35 * k, y) for k, y in enumerate(heights))]
        self.pen.blob([*points, (120.0, -10.0)], self.tone(colour), rim=False)

    def ground(self, top: float, colour: Colour) -> None:
        """Fill everything below a height."""
        self.pen.box(-1, -1, 101, top, self.tone(colour))


def canvas(pixels: int, place: str, sky: str | None) -> Image.Image:
    """Return an RGB picture of the sky's or the wall's gradient."""
    top, low = _SKIES[sky] if sky else _WALLS[place]
    column = Image.new("RGB", (1, 24))
    for y in range(24):
        column.putpixel((0, y), mix(top, low, y / 23))
    return column.resize((pixels, pixels), Image.Resampling.BILINEAR, box=(0, 0, 1, 24))


def draw_place(
    draw: ImageDraw.ImageDraw, pixels: int, place: str, sky: str | None, rng: Random
) -> None:
    """Paint a place over the canvas of its sky or wall."""
    pen = Pen(draw, 0, pixels, pixels / 100)
    if sky is None:
        _INSIDE[place](pen, rng)
        return
    _heavens(pen, sky, rng)
    _OUTSIDE[place](Backdrop(pen, sky, rng))


def draw_rain(draw: ImageDraw.ImageDraw, pixels: int, rng: Random) -> None:
    """Let it rain over everything."""
    pen = Pen(draw, 0, pixels, pixels / 100)
    for _ in range(46):
        x, y = rng.uniform(0, 104), rng.uniform(2, 104)
        pen.line(((x, y), (x - 1.6, y - 6)), 0.45, (206, 222, 238))


def _heavens(pen: Pen, sky: str, rng: Random) -> None:
    x = rng.choice((rng.uniform(8, 26), rng.uniform(74, 92)))
    if sky == "sunny":
        pen.polygon(star(x, 90, 11, 12), (255, 236, 150))
        pen.disc(x, 90, 7, (255, 222, 84))
        _clouds(pen, rng, 2, (255, 255, 255))
    elif sky == "sunset":
        low = rng.uniform(62, 66)
        pen.disc(x, low, 12, (255, 206, 130))
        pen.disc(x, low, 8.5, (255, 150, 74))
        _clouds(pen, rng, 2, (238, 160, 150))
    elif sky == "night":
        for _ in range(26):
            pen.disc(
                rng.uniform(0, 100), rng.uniform(56, 100), rng.uniform(0.25, 0.6), (246, 244, 220)
            )
        pen.disc(x, 88, 6.2, (250, 244, 208))
        pen.disc(x + 3, 90, 5.4, (22, 29, 74))
    else:
        _clouds(pen, rng, 5, (126, 136, 150))


def _clouds(pen: Pen, rng: Random, count: int, colour: Colour) -> None:
    for _ in range(count):
        x, y, r = rng.uniform(4, 96), rng.uniform(78, 96), rng.uniform(3, 4.6)
        for dx, dy, part in ((-1.5, 0, 0.8), (0, 0.5, 1.15), (1.6, 0, 0.9)):
            pen.oval(x + dx * r, y + dy * r, part * r * 1.25, part * r, colour)


def _bush(view: Backdrop, x: float, y: float, r: float, colour: Colour) -> None:
    tone = view.tone(colour)
    for dx, part in ((-1.0, 0.8), (1.0, 0.85), (0.0, 1.1)):
        view.pen.oval(x + dx * r, y + r * 0.2, part * r, part * r * 0.8, tone)


def _park(view: Backdrop) -> None:
    view.hills(50, 5, (138, 196, 128))
    view.hills(40, 3, (150, 206, 112))
    for _ in range(3):
        _bush(view, view.rng.uniform(0, 100), 40, view.rng.uniform(4, 6), (104, 172, 96))
    view.ground(36, (162, 214, 112))
    turn = view.rng.uniform(-25, 25)
    path = (
        (30 + turn, -8),
        (42 + turn, 14),
        (54 + turn, 28),
        (58 + turn, 36),
        (64 + turn, 36),
        (68 + turn, 26),
        (70 + turn, 12),
        (78 + turn, -8),
    )
    view.pen.blob(path, view.tone((232, 214, 170)), rim=False)


def _beach(view: Backdrop) -> None:
    view.pen.box(-1, 30, 101, 52, view.tone((52, 156, 196)))
    view.pen.box(-1, 30, 101, 40, view.tone((84, 190, 210)))
    for _ in range(7):
        x, y = view.rng.uniform(0, 90), view.rng.uniform(36, 50)
        view.pen.line(((x, y), (x + 8, y)), 0.6, view.tone((206, 240, 246)))
    heights = [28 + view.rng.uniform(-2, 2) for _ in range(6)]
    shore = [(-20.0 + 28 * k, y) for k, y in enumerate(heights)]
    view.pen.blob(
        [(-20, -20), *((x, y + 2) for x, y in shore), (130, -20)],
        view.tone((240, 248, 246)),
        rim=False,
    )
    view.pen.blob([(-20, -20), *shore, (130, -20)], view.tone((244, 220, 164)), rim=False)
    for _ in range(4):
        view.pen.oval(
            view.rng.uniform(0, 100), view.rng.uniform(2, 20), 1.1, 0.6, view.tone((226, 194, 140))
        )


def _street(view: Backdrop) -> None:
    x = -3.0
    while x < 100:
        wide, tall = view.rng.uniform(17, 25), view.rng.uniform(24, 42)
        wall = view.tone(
            view.rng.choice(((226, 178, 150), (214, 196, 170), (196, 172, 176), (178, 190, 196)))
        )
        view.pen.box(x, 34, x + wide, 34 + tall, wall, rim=True)
        view.pen.polygon(
            (
                (x - 1, 34 + tall),
                (x + wide + 1, 34 + tall),
                (x + wide - 3, 39 + tall),
                (x + 3, 39 + tall),
            ),
            shade(wall, 0.72),
        )
        pane = (255, 226, 140) if view.sky in ("night", "sunset") else view.tone((206, 228, 238))
        for row in range(int(tall // 12)):
            for column in range(2):
                left = x + wide * (0.18 + 0.4 * column)
                view.pen.box(left, 42 + row * 11, left + wide * 0.22, 48 + row * 11, pane)
        x += wide + 0.5
    view.ground(35, (206, 204, 202))
    view.ground(27, (124, 128, 136))
    view.pen.box(-1, 26, 101, 28, view.tone((170, 170, 172)))
    for k in range(5):
        view.pen.box(2 + k * 22, 6, 14 + k * 22, 7.6, view.tone((238, 236, 220)))


def _snow(view: Backdrop) -> None:
    for middle in (10, 46, 84):
        x = middle + view.rng.uniform(-8, 8)
        top = view.rng.uniform(64, 76)
        view.pen.polygon(((x - 30, 36), (x, top), (x + 30, 36)), view.tone((142, 164, 196)))
        view.pen.polygon(
            ((x - 8, top - 10), (x, top), (x + 8, top - 10), (x + 3, top - 8), (x - 2, top - 12)),
            view.tone((244, 248, 252)),
        )
    view.hills(42, 4, (206, 222, 238))
    view.hills(34, 3, (220, 232, 244))
    view.ground(28, (226, 237, 247))
    for _ in range(16):
        view.pen.disc(
            view.rng.uniform(0, 100),
            view.rng.uniform(40, 100),
            view.rng.uniform(0.5, 0.9),
            (250, 252, 255),
        )


def _farm(view: Backdrop) -> None:
    view.hills(48, 3, (196, 200, 112))
    x = view.rng.choice((view.rng.uniform(4, 20), view.rng.uniform(66, 78)))
    barn = view.tone((176, 70, 60))
    view.pen.box(x, 42, x + 20, 56, barn, rim=True)
    view.pen.polygon(
        ((x - 2, 55), (x + 4, 64), (x + 16, 64), (x + 22, 55)), view.tone((110, 72, 66))
    )
    view.pen.box(x + 7, 42, x + 13, 51, view.tone((240, 228, 210)))
    view.ground(43, (214, 196, 96))
    for k in range(9):
        view.pen.line(
            ((50 + (k - 4) * 6, 43), (50 + (k - 4) * 22, 26)), 1.0, view.tone((188, 168, 76))
        )
    view.ground(27, (168, 196, 92))
    wood = view.tone((232, 222, 204))
    for k in range(8):
        view.pen.box(k * 14 - 2, 24, k * 14 - 0.2, 36, wood)
    for y in (28, 32.4):
        view.pen.box(-1, y, 101, y + 1.5, wood)


def _forest(view: Backdrop) -> None:
    view.hills(52, 3, (66, 120, 92))
    for row, (base, colour) in enumerate((((40, (56, 116, 84))), (34, (44, 102, 72)))):
        for k in range(8 - row):
            x = k * 15 + view.rng.uniform(-5, 5)
            tall = view.rng.uniform(26, 38) + row * 5
            tone = view.tone(colour)
            view.pen.box(x - 1.2, base - 4, x + 1.2, base + 6, view.tone((92, 64, 48)))
            for part in range(3):
                low = base + 3 + part * tall * 0.24
                wide = 8.5 - part * 2.0
                view.pen.polygon(
                    ((x - wide, low), (x, low + tall * 0.46), (x + wide, low)),
                    shade(tone, 1 + 0.06 * part),
                )
    view.ground(36, (104, 142, 84))
    view.ground(30, (118, 154, 88))
    for _ in range(5):
        view.pen.oval(
            view.rng.uniform(0, 100), view.rng.uniform(2, 28), 3.0, 0.8, view.tone((94, 128, 72))
        )


def _lake(view: Backdrop) -> None:
    view.hills(60, 6, (122, 160, 168))
    view.hills(54, 3, (116, 172, 128))
    view.pen.box(-1, 20, 101, 52, view.tone((74, 148, 200)))
    view.pen.box(-1, 42, 101, 52, view.tone((110, 176, 214)))
    for _ in range(9):
        x, y = view.rng.uniform(0, 90), view.rng.uniform(26, 50)
        view.pen.line(((x, y), (x + 7, y)), 0.6, view.tone((176, 216, 238)))
    view.pen.blob(
        ((-20, -20), (-20, 19), (20, 21), (60, 18), (120, 21), (120, -20)),
        view.tone((150, 204, 106)),
        rim=False,
    )
    for side in (view.rng.uniform(0, 6), view.rng.uniform(93, 99)):
        for k in range(4):
            view.pen.line(
                ((side + k * 1.4, 18), (side + k * 1.7 - 1, 28 + k % 2 * 3)),
                0.7,
                view.tone((92, 146, 76)),
            )


_WALLS: dict[str, tuple[Colour, Colour]] = {
    "kitchen": ((250, 232, 196), (252, 240, 214)),
    "living room": ((196, 214, 206), (216, 228, 220)),
    "classroom": ((238, 226, 236), (246, 238, 242)),
}


def _floor(pen: Pen, top: float, colour: Colour) -> None:
    pen.box(-1, -1, 101, top, colour)
    pen.box(-1, top - 0.6, 101, top + 1.0, (250, 248, 244))


def _kitchen(pen: Pen, rng: Random) -> None:
    _floor(pen, 30, (216, 208, 196))
    for row in range(4):
        for k in range(8):
            if (row + k) % 2:
                pen.polygon(
                    (
                        (k * 14 - 6, row * 7.3),
                        (k * 14 + 8, row * 7.3),
                        (k * 14 + 8, row * 7.3 + 7.3),
                        (k * 14 - 6, row * 7.3 + 7.3),
                    ),
                    (196, 188, 178),
                )
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
            pen.line(
                (
                    (hearth + k * 8 + row % 2 * 4, 33 + row * 6),
                    (hearth + k * 8 + row % 2 * 4 + 3, 33 + row * 6),
                ),
                0.6,
                (160, 96, 80),
            )
    pen.box(hearth + 8, 30, hearth + 24, 47, (60, 46, 46))
    pen.polygon(
        (
            (hearth + 11, 30.5),
            (hearth + 13, 40),
            (hearth + 16, 35),
            (hearth + 19, 41),
            (hearth + 21, 30.5),
        ),
        (255, 160, 60),
    )
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
        pen.box(
            x + 2, 66, x + 7, 78, rng.choice(((150, 190, 206), (206, 170, 150), (170, 196, 150)))
        )


_OUTSIDE = {
    "park": _park,
    "beach": _beach,
    "street": _street,
    "snow": _snow,
    "farm": _farm,
    "forest": _forest,
    "lake": _lake,
}
_INSIDE = {"kitchen": _kitchen, "living room": _living_room, "classroom": _classroom}
