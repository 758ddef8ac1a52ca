"""Draw animals, in hundredths of the picture's side, each facing right."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from models.datasets.scenes.drawing.birds import BIRDS
from models.datasets.scenes.drawing.palette import DARK, PINK, dye
from models.datasets.scenes.drawing.pen import Colour, Pen, Point, shade
from models.datasets.scenes.scene import Entity


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
    if entity.kind in BIRDS:
        BIRDS[entity.kind](pen, coat, pose)
    elif entity.kind == "rabbit":
        _rabbit(pen, coat, pose)
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
    _extras(pen, kind, coat, back, at)
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


def _extras(pen: Pen, kind: str, coat: Colour, back: float, at: Point) -> None:
    length = _BEASTS[kind].length
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
    skin = coat if kind != "sheep" else DARK
    _ears(pen, kind, shade(coat, 0.74), at)
    tone = {"pig": shade(coat, 0.9), "cow": PINK}.get(kind, skin)
    pen.line(((x, y - 0.3), (x + reach, y + drop)), nose * 2, tone)
    pen.oval(x, y, rx, ry, skin, rim=True)
    _snout(pen, kind, tone, (x + reach, y + drop), nose)
    _crown(pen, kind, coat, at)
    light = sum(skin) < 330
    eye: Colour = (250, 250, 250) if light else DARK
    ex, ey = x + rx * 0.3, y + ry * 0.25
    if asleep:
        pen.line(((ex - 0.8, ey), (ex + 0.8, ey)), 0.5, eye)
    else:
        pen.disc(ex, ey, 0.75, eye)
        if light:
            pen.disc(ex + 0.15, ey, 0.42, (20, 20, 24))


def _ears(pen: Pen, kind: str, ear: Colour, at: Point) -> None:
    """Draw what stands behind the head: ears and horns."""
    x, y = at
    if kind == "cat":
        for tip in (-2.1, 1.5):
            pen.polygon(
                ((x + tip - 1.5, y + 1.2), (x + tip - 0.2, y + 5.4), (x + tip + 1.5, y + 1.2)), ear
            )
            pen.polygon(
                ((x + tip - 0.6, y + 2.0), (x + tip - 0.1, y + 4.0), (x + tip + 0.7, y + 2.0)), PINK
            )
    elif kind == "horse":
        pen.polygon(((x - 2.4, y + 2), (x - 2.0, y + 5.6), (x - 0.2, y + 2.6)), ear)
    elif kind == "cow":
        pen.line(((x - 2.2, y + 3), (x - 3.0, y + 6.2)), 1.3, (236, 226, 200))
        pen.line(((x + 1.6, y + 3), (x + 2.4, y + 6.2)), 1.3, (236, 226, 200))
        pen.oval(x - 4.6, y + 1.6, 2.0, 1.1, ear)
    elif kind == "pig":
        pen.polygon(((x - 2.6, y + 2.2), (x - 2.0, y + 5.6), (x + 0.4, y + 3.2)), ear)


def _snout(pen: Pen, kind: str, tone: Colour, at: Point, nose: float) -> None:
    x, y = at
    if kind == "cow":
        pen.oval(x, y, nose, nose * 0.8, tone)
    elif kind == "pig":
        pen.oval(x + 0.6, y, 1.3, nose, shade(tone, 0.88))
    elif kind != "horse":
        tip = PINK if kind in ("cat", "sheep") else DARK
        pen.disc(x + nose * 0.7, y + nose * 0.4, 0.55 if kind == "cat" else 0.8, tip)


def _crown(pen: Pen, kind: str, coat: Colour, at: Point) -> None:
    """Draw what hangs or curls over the head."""
    x, y = at
    if kind == "poodle":
        pen.disc(x - 0.6, y + 2.4, 2.7, coat, rim=True)
        pen.oval(x - 2.2, y - 1.2, 1.6, 3.0, shade(coat, 0.86), rim=True)
    elif kind == "labrador":
        pen.oval(x - 1.8, y - 0.6, 1.5, 3.2, shade(coat, 0.74))
    elif kind == "sheep":
        pen.oval(x - 0.6, y + 2.6, 3.0, 1.9, coat, rim=True)
        pen.oval(x - 3.0, y + 0.4, 1.7, 0.9, DARK)


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
