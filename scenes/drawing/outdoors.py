"""Paint the places outdoors over their sky, in the light of the day."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from hasse.scenes.drawing.palette import mix
from hasse.scenes.drawing.pen import Colour, Pen, shade

_LIGHT: dict[str, tuple[Colour, float]] = {
    "sunny": ((255, 255, 255), 0.0),
    "rainy": ((96, 108, 124), 0.3),
    "sunset": ((206, 110, 84), 0.24),
    "night": ((34, 42, 92), 0.48),
}
_WALLS: tuple[Colour, ...] = (
    *((226, 178, 150), (214, 196, 170), (196, 172, 176), (178, 190, 196)),
)


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
    path = view.pen.moved(view.rng.uniform(-25, 25), 0)
    left, right = ((30, -8), (42, 14), (54, 28), (58, 36)), ((64, 36), (68, 26), (70, 12), (78, -8))
    path.blob((*left, *right), view.tone((232, 214, 170)), rim=False)


def _beach(view: Backdrop) -> None:
    view.pen.box(-1, 30, 101, 52, view.tone((52, 156, 196)))
    view.pen.box(-1, 30, 101, 40, view.tone((84, 190, 210)))
    for _ in range(7):
        x, y = view.rng.uniform(0, 90), view.rng.uniform(36, 50)
        view.pen.line(((x, y), (x + 8, y)), 0.6, view.tone((206, 240, 246)))
    heights = [28 + view.rng.uniform(-2, 2) for _ in range(6)]
    shore = [(-20.0 + 28 * k, y) for k, y in enumerate(heights)]
    foam = [(-20, -20), *((x, y + 2) for x, y in shore), (130, -20)]
    view.pen.blob(foam, view.tone((240, 248, 246)), rim=False)
    view.pen.blob([(-20, -20), *shore, (130, -20)], view.tone((244, 220, 164)), rim=False)
    for _ in range(4):
        x, y = view.rng.uniform(0, 100), view.rng.uniform(2, 20)
        view.pen.oval(x, y, 1.1, 0.6, view.tone((226, 194, 140)))


def _street(view: Backdrop) -> None:
    x = -3.0
    while x < 100:
        wide, tall = view.rng.uniform(17, 25), view.rng.uniform(24, 42)
        wall = view.tone(view.rng.choice(_WALLS))
        view.pen.box(x, 34, x + wide, 34 + tall, wall, rim=True)
        eaves, ridge = 34 + tall, 39 + tall
        roof = ((x - 1, eaves), (x + wide + 1, eaves), (x + wide - 3, ridge), (x + 3, ridge))
        view.pen.polygon(roof, shade(wall, 0.72))
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
        peak = ((-8, -10), (0, 0), (8, -10), (3, -8), (-2, -12))
        view.pen.moved(x, top).polygon(peak, view.tone((244, 248, 252)))
    view.hills(42, 4, (206, 222, 238))
    view.hills(34, 3, (220, 232, 244))
    view.ground(28, (226, 237, 247))
    for _ in range(16):
        x, y = view.rng.uniform(0, 100), view.rng.uniform(40, 100)
        view.pen.disc(x, y, view.rng.uniform(0.5, 0.9), (250, 252, 255))


def _farm(view: Backdrop) -> None:
    view.hills(48, 3, (196, 200, 112))
    x = view.rng.choice((view.rng.uniform(4, 20), view.rng.uniform(66, 78)))
    barn = view.tone((176, 70, 60))
    view.pen.box(x, 42, x + 20, 56, barn, rim=True)
    roof = ((x - 2, 55), (x + 4, 64), (x + 16, 64), (x + 22, 55))
    view.pen.polygon(roof, view.tone((110, 72, 66)))
    view.pen.box(x + 7, 42, x + 13, 51, view.tone((240, 228, 210)))
    view.ground(43, (214, 196, 96))
    for k in range(9):
        furrow = ((50 + (k - 4) * 6, 43), (50 + (k - 4) * 22, 26))
        view.pen.line(furrow, 1.0, view.tone((188, 168, 76)))
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
                branches = ((x - wide, low), (x, low + tall * 0.46), (x + wide, low))
                view.pen.polygon(branches, shade(tone, 1 + 0.06 * part))
    view.ground(36, (104, 142, 84))
    view.ground(30, (118, 154, 88))
    for _ in range(5):
        x, y = view.rng.uniform(0, 100), view.rng.uniform(2, 28)
        view.pen.oval(x, y, 3.0, 0.8, view.tone((94, 128, 72)))


def _lake(view: Backdrop) -> None:
    view.hills(60, 6, (122, 160, 168))
    view.hills(54, 3, (116, 172, 128))
    view.pen.box(-1, 20, 101, 52, view.tone((74, 148, 200)))
    view.pen.box(-1, 42, 101, 52, view.tone((110, 176, 214)))
    for _ in range(9):
        x, y = view.rng.uniform(0, 90), view.rng.uniform(26, 50)
        view.pen.line(((x, y), (x + 7, y)), 0.6, view.tone((176, 216, 238)))
    shore = ((-20, -20), (-20, 19), (20, 21), (60, 18), (120, 21), (120, -20))
    view.pen.blob(shore, view.tone((150, 204, 106)), rim=False)
    for side in (view.rng.uniform(0, 6), view.rng.uniform(93, 99)):
        for k in range(4):
            reed = ((side + k * 1.4, 18), (side + k * 1.7 - 1, 28 + k % 2 * 3))
            view.pen.line(reed, 0.7, view.tone((92, 146, 76)))


OUTDOORS: dict[str, Callable[[Backdrop], None]] = {
    "park": _park,
    "beach": _beach,
    "street": _street,
    "snow": _snow,
    "farm": _farm,
    "forest": _forest,
    "lake": _lake,
}
