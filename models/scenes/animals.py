"""Draw animals, in hundredths of the picture's side, each facing right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from models.scenes.palette import DARK, dye
from models.scenes.pen import Colour, Pen, Point, shade
from models.scenes.scene import Entity

PINK: Colour = (244, 158, 172)
BEAK: Colour = (246, 168, 44)


@dataclass(frozen=True, slots=True)
class _Beast:
    """Proportions of a four-legged animal: trunk from -length to length, on legs."""

    length: float
    leg: float
    depth: float  # half the trunk's thickness
    thick: float  # of a leg
    head: Point  # from the front of the back
    skull: tuple[float, float]
    muzzle: tuple[float, float, float]  # reach, drop, radius


_BEASTS = {
    "labrador": _Beast(7.0, 6.0, 3.4, 2.4, (3.0, 5.0), (3.6, 3.3), (3.4, -0.9, 1.9)),
    "poodle": _Beast(5.2, 6.4, 2.4, 1.6, (2.2, 6.0), (2.7, 2.6), (3.4, -0.8, 1.2)),
    "cat": _Beast(5.6, 4.4, 2.6, 1.7, (2.6, 4.0), (3.4, 2.9), (1.8, -0.7, 1.3)),
    "horse": _Beast(11.0, 14.0, 5.2, 2.8, (6.0, 12.0), (3.6, 3.2), (5.2, -3.0, 2.3)),
    "cow": _Beast(11.5, 8.6, 6.4, 3.0, (5.4, 3.4), (4.2, 4.0), (3.2, -2.0, 2.8)),
    "sheep": _Beast(7.6, 5.2, 4.6, 2.0, (3.4, 2.8), (2.7, 3.2), (1.4, -1.4, 1.7)),
    "pig": _Beast(8.0, 4.0, 4.8, 2.6, (3.2, 0.6), (4.0, 3.8), (3.6, -0.6, 1.9)),
}


def draw_animal(pen: Pen, entity: Entity, pose: str, rng: Random) -> None:
    """Draw an animal at the pen's origin in the pose of its action."""
    coat = dye(entity.colour, rng) if entity.colour else PINK
    special = _SPECIAL.get(entity.kind)
    if special is not None:
        special(pen, coat, pose)
    elif pose == "sleep":
        _sleeping(pen, entity.kind, coat)
    elif pose == "sit":
        _sitting(pen, entity.kind, coat)
    else:
        _four_legged(pen, entity.kind, coat, pose)


def _strides(pose: str, x: float, leg: float) -> tuple[tuple[Point, Point], ...]:
    """Return hip and foot of the far hind, far front, near hind and near front leg."""
    swing = {"walk": leg * 0.38, "run": leg * 0.85}.get(pose, 0.0)
    lift = leg * 0.25 if pose == "run" else 0.0
    return (
        ((-x + 0.8, leg), (-x + 0.8 + swing, 0.3)),
        ((x - 0.8, leg), (x - 0.8 - swing * 0.6, 0.3)),
        ((-x, leg), (-x - swing, lift)),
        ((x, leg), (x + swing, lift)),
    )


def _four_legged(pen: Pen, kind: str, coat: Colour, pose: str) -> None:
    beast = _BEASTS[kind]
    length, leg, depth = beast.length, beast.leg, beast.depth
    back = leg + depth * 2
    dark = shade(coat, 0.78)
    limb = dark if kind != "sheep" else DARK
    legs = _strides(pose, length - beast.thick * 0.6, leg + depth * 0.6)
    for hip, foot in legs[:2]:
        pen.line((hip, foot), beast.thick, shade(limb, 0.86))
    for hip, foot in legs[2:]:
        pen.line((hip, foot), beast.thick, limb if kind == "sheep" else shade(coat, 0.9))
        if kind == "poodle":
            pen.disc(foot[0], foot[1] + 1.3, 1.5, coat, rim=True)
    _tail(pen, kind, coat, -length, back)
    at = (length + beast.head[0], back + beast.head[1] - depth)
    if kind in ("horse", "poodle", "labrador", "cat"):
        wide = depth * (0.75 if kind == "horse" else 0.62)
        pen.line(
            ((length - depth * 0.6, back - depth * 0.9), (at[0] - 0.4, at[1] - 0.6)), wide * 2, coat
        )
    pen.blob(
        (
            (-length, back - depth * 0.3),
            (-length * 0.5, back),
            (length * 0.5, back - (0.4 if kind in ("horse", "cat") else 0.0)),
            (length, back - depth * 0.3),
            (length, back - depth * 1.4),
            (length * 0.4, leg),
            (-length * 0.5, leg + (0.3 if kind != "cow" else -0.4)),
            (-length, back - depth * 1.5),
        ),
        coat,
    )
    _extras(pen, kind, coat, length, back, at)
    _face(pen, kind, coat, at)


def _tail(pen: Pen, kind: str, coat: Colour, x: float, back: float) -> None:
    if kind == "labrador":
        pen.line(((x + 1, back - 1.5), (x - 2.5, back + 0.5), (x - 4, back + 3)), 1.7, coat)
    elif kind == "poodle":
        pen.line(((x + 1, back - 1), (x - 1.4, back + 2.6)), 1.0, coat)
        pen.disc(x - 1.8, back + 3.6, 1.8, coat, rim=True)
    elif kind == "cat":
        pen.line(
            ((x + 1, back - 1), (x - 2, back), (x - 3, back + 3.5), (x - 1.6, back + 6)), 1.5, coat
        )
    elif kind == "horse":
        pen.line(
            ((x + 1, back - 2), (x - 3, back - 4), (x - 3.4, back - 12)), 2.6, shade(coat, 0.55)
        )
    elif kind == "cow":
        pen.line(
            ((x + 0.5, back - 1), (x - 1.6, back - 3), (x - 1.6, back - 9)), 0.9, shade(coat, 0.8)
        )
        pen.disc(x - 1.6, back - 9.6, 1.2, shade(coat, 0.5))
    elif kind == "pig":
        pen.line(
            ((x, back - 4), (x - 1.4, back - 3), (x - 1.6, back - 5), (x - 3, back - 4)),
            0.9,
            shade(coat, 0.85),
        )


def _extras(pen: Pen, kind: str, coat: Colour, length: float, back: float, at: Point) -> None:
    if kind == "sheep":
        for step in range(5):
            x = -length + step * length / 2
            pen.disc(x, back - 0.8, 2.8, coat, rim=True)
            pen.disc(x, back - 6.6, 2.6, coat, rim=True)
        pen.oval(0, back - 4.0, length + 0.6, 3.9, coat)
    elif kind == "cow":
        spot = shade(coat, 1.75) if sum(coat) < 560 else (150, 112, 92)
        pen.oval(-4.5, back - 4, 3.2, 2.6, spot)
        pen.oval(3.6, back - 7, 2.6, 2.2, spot)
        pen.oval(-5.0, back - 13.4, 2.4, 1.7, PINK)
    elif kind == "horse":
        mane = shade(coat, 0.55)
        pen.line(
            ((length - 4, back - 1.5), (length - 0.6, back + 3.4), (at[0] - 3.4, at[1] + 2.0)),
            2.8,
            mane,
        )
    elif kind == "poodle":
        pen.disc(length - 1.2, back - 1.6, 3.2, coat, rim=True)
        pen.disc(-length + 1, back - 2.2, 2.6, coat, rim=True)


def _face(pen: Pen, kind: str, coat: Colour, at: Point, *, asleep: bool = False) -> None:
    beast = _BEASTS[kind]
    x, y = at
    rx, ry = beast.skull
    reach, drop, nose = beast.muzzle
    ear = shade(coat, 0.74)
    skin = coat if kind != "sheep" else DARK
    if kind == "cat":
        for tip in (-0.62, 0.5):
            pen.polygon(
                (
                    (x + rx * tip - 1.3, y + 1.6),
                    (x + rx * tip, y + 4.9),
                    (x + rx * tip + 1.4, y + 1.4),
                ),
                ear,
            )
    elif kind == "horse":
        pen.polygon(((x - 2.4, y + 2), (x - 2.0, y + 5.6), (x - 0.2, y + 2.6)), ear)
    elif kind == "cow":
        pen.line(((x - 2.2, y + 3), (x - 3.0, y + 6.2)), 1.3, (236, 226, 200))
        pen.line(((x + 1.6, y + 3), (x + 2.4, y + 6.2)), 1.3, (236, 226, 200))
        pen.oval(x - 4.6, y + 1.6, 2.0, 1.1, ear)
    elif kind == "pig":
        pen.polygon(((x - 2.6, y + 2.2), (x - 2.0, y + 5.6), (x + 0.4, y + 3.2)), ear)
    tone = shade(coat, 0.9) if kind in ("pig", "cow") else skin
    if kind == "cow":
        tone = PINK
    pen.line(((x, y - 0.3), (x + reach, y + drop)), nose * 2, tone)
    pen.oval(x, y, rx, ry, skin, rim=True)
    if kind == "cow":
        pen.oval(x + reach, y + drop, nose, nose * 0.8, tone)
    elif kind == "pig":
        pen.oval(x + reach + 0.6, y + drop, 1.3, nose, shade(coat, 0.8))
    else:
        snout = PINK if kind in ("cat", "sheep") else DARK
        if kind != "horse":
            pen.disc(x + reach + nose * 0.7, y + drop + nose * 0.4, 0.8, snout)
    if kind == "poodle":
        pen.disc(x - 0.6, y + 2.4, 2.7, coat, rim=True)
        pen.oval(x - 2.2, y - 1.2, 1.6, 3.0, shade(coat, 0.86), rim=True)
    elif kind == "labrador":
        pen.oval(x - 1.8, y - 0.6, 1.5, 3.2, ear)
    elif kind == "sheep":
        pen.oval(x - 0.6, y + 2.6, 3.0, 1.9, coat, rim=True)
        pen.oval(x - 3.0, y + 0.4, 1.7, 0.9, DARK)
    light = sum(skin) < 330
    eye: Colour = (250, 250, 250) if light else DARK
    ex, ey = x + rx * 0.3, y + ry * 0.25
    if asleep:
        pen.line(((ex - 0.8, ey), (ex + 0.8, ey)), 0.5, eye)
    else:
        pen.disc(ex, ey, 0.75, eye)
        if light:
            pen.disc(ex + 0.15, ey, 0.42, (20, 20, 24))


def _sitting(pen: Pen, kind: str, coat: Colour) -> None:
    beast = _BEASTS[kind]
    tall = beast.leg + beast.depth * 2 - 0.5
    dark = shade(coat, 0.86)
    _tail_on_ground(pen, kind, coat)
    pen.blob(
        (
            (-5.5, 1.6),
            (-4.2, 5.0),
            (0.4, tall),
            (3.2, tall - 0.6),
            (3.2, 3.0),
            (1.6, 0.2),
            (-3.6, 0.0),
        ),
        coat,
    )
    pen.line(((2.0, tall * 0.6), (2.8, 0.8)), beast.thick, dark)
    pen.oval(-2.2, 1.5, 3.2, 1.9, dark)
    if kind == "poodle":
        pen.disc(1.4, tall - 1.6, 3.0, coat, rim=True)
    _face(pen, kind, coat, (3.0, tall + beast.skull[1] * 0.85))


def _tail_on_ground(pen: Pen, kind: str, coat: Colour) -> None:
    if kind == "poodle":
        pen.disc(-6.6, 3.2, 1.8, coat, rim=True)
    else:
        pen.line(((-4.6, 1.4), (-7.4, 1.2), (-8.8, 3.2)), 1.5, shade(coat, 0.9))


def _sleeping(pen: Pen, kind: str, coat: Colour) -> None:
    beast = _BEASTS[kind]
    _tail_on_ground(pen, kind, coat)
    pen.blob(
        ((-7.4, 0.4), (-7.0, 4.0), (-3.0, 6.4), (2.4, 5.6), (6.0, 2.6), (6.2, 0.3), (0.0, 0.0)),
        coat,
    )
    pen.line(((1.4, 0.9), (8.4, 0.9)), beast.thick * 0.9, shade(coat, 0.88))
    if kind == "poodle":
        pen.disc(2.2, 4.2, 3.0, coat, rim=True)
    _face(pen, kind, coat, (5.4, beast.skull[1] + 0.6), asleep=True)


def _rabbit(pen: Pen, coat: Colour, pose: str) -> None:
    lean = 1.6 if pose == "run" else 0.0
    pen.disc(-5.2, 3.0, 1.7, shade(coat, 1.6))
    pen.oval(-1.0, 4.0 + lean * 0.3, 4.8, 4.0, coat, rim=True)
    pen.oval(-1.8 - lean * 1.6, 1.2, 3.4, 1.4, shade(coat, 0.86))
    pen.oval(2.4 + lean * 1.6, 1.0 + lean * 0.4, 1.9, 1.2, shade(coat, 0.86))
    for x in (1.8, 3.6):
        pen.oval(x - lean, 14.0 - lean * 0.4, 1.25, 4.4, coat, rim=True)
        pen.oval(x - lean, 14.0 - lean * 0.4, 0.55, 3.2, PINK)
    pen.disc(3.4, 8.4, 3.2, coat, rim=True)
    pen.disc(4.4, 9.0, 0.75, DARK)
    pen.disc(6.2, 8.0, 0.6, PINK)


def _hen(pen: Pen, coat: Colour, _pose: str) -> None:
    for x in (-0.6, 1.2):
        pen.line(((x, 3.4), (x, 0.4), (x + 1.4, 0.2)), 0.7, BEAK)
    pen.blob(
        (
            (-7.6, 11.6),
            (-4.4, 8.6),
            (0.6, 7.6),
            (2.2, 12.4),
            (5.2, 12.4),
            (5.4, 6.4),
            (2.4, 3.2),
            (-3.4, 3.4),
            (-6.6, 7.0),
        ),
        coat,
    )
    pen.oval(-1.2, 6.4, 3.2, 2.0, shade(coat, 0.86))
    for x in (2.4, 3.8, 5.0):
        pen.disc(x, 14.2, 1.2, (214, 44, 50))
    pen.polygon(((5.4, 12.4), (7.8, 11.4), (5.4, 10.8)), BEAK)
    pen.oval(5.6, 9.8, 0.8, 1.3, (214, 44, 50))
    pen.disc(4.2, 12.2, 0.7, DARK)


def _duck(pen: Pen, coat: Colour, pose: str) -> None:
    down = 2.6 if pose == "swim" else 0.0
    if pose != "swim":
        pen.line(((0.4, 3.0), (0.4, 0.4), (2.0, 0.3)), 0.9, BEAK)
    pen.blob(
        (
            (-8.0, 8.2 - down),
            (-4.4, 6.6 - down),
            (1.6, 7.4 - down),
            (5.6, 6.2 - down),
            (4.2, 2.6 - down),
            (-4.2, 2.6 - down),
        ),
        coat,
    )
    pen.oval(-0.8, 5.0 - down, 3.2, 1.7, shade(coat, 0.84))
    pen.line(((4.2, 6.0 - down), (4.6, 9.6 - down)), 2.6, coat)
    pen.disc(4.8, 11.0 - down, 2.7, coat, rim=True)
    pen.polygon(((6.8, 11.6 - down), (10.4, 10.6 - down), (6.8, 9.6 - down)), BEAK)
    pen.disc(5.6, 11.6 - down, 0.7, DARK if sum(coat) > 330 else (250, 250, 250))
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


_SPECIAL: dict[str, Callable[[Pen, Colour, str], None]] = {
    "rabbit": _rabbit,
    "hen": _hen,
    "duck": _duck,
    "parrot": _parrot,
    "penguin": _penguin,
}
