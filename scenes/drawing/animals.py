"""Draw animals, in hundredths of the picture's side, each facing right."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from hasse.scenes.drawing.birds import BIRDS
from hasse.scenes.drawing.palette import DARK, PINK, dye
from hasse.scenes.drawing.pen import Colour, Pen, Point, shade
from hasse.scenes.scene import Entity

HORN: Colour = (236, 226, 200)


@dataclass(frozen=True, slots=True)
class _Proportions:
    """Proportions of a four-legged animal: trunk from -length to length, on legs."""

    length: float
    leg: float
    depth: float  # half the trunk's thickness
    thick: float  # of a leg
    head: Point  # from the front of the back
    skull: tuple[float, float]
    muzzle: tuple[float, float, float]  # reach, drop, radius


_PROPORTIONS = {
    "labrador": _Proportions(7.0, 6.0, 3.4, 2.4, (3.0, 5.0), (3.6, 3.3), (3.4, -0.9, 1.9)),
    "poodle": _Proportions(5.2, 6.4, 2.4, 1.6, (2.2, 6.0), (2.7, 2.6), (3.4, -0.8, 1.2)),
    "cat": _Proportions(5.6, 4.4, 2.6, 1.7, (2.6, 4.0), (3.4, 2.9), (1.8, -0.7, 1.3)),
    "horse": _Proportions(11.0, 14.0, 5.2, 2.8, (6.0, 12.0), (3.6, 3.2), (5.2, -3.0, 2.3)),
    "cow": _Proportions(11.5, 8.6, 6.4, 3.0, (5.4, 3.4), (4.2, 4.0), (3.2, -2.0, 2.8)),
    "sheep": _Proportions(7.6, 5.2, 4.6, 2.0, (3.4, 2.8), (2.7, 3.2), (1.4, -1.4, 1.7)),
    "pig": _Proportions(8.0, 4.0, 4.8, 2.6, (3.2, 0.6), (4.0, 3.8), (3.6, -0.6, 1.9)),
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
    body = _PROPORTIONS[kind]
    length, leg, depth = body.length, body.leg, body.depth
    back = leg + depth * 2
    dark = shade(coat, 0.78)
    limb = dark if kind != "sheep" else DARK
    legs = _strides(pose, length - body.thick * 0.6, leg + depth * 0.6)
    for hip, foot in legs[:2]:
        pen.line((hip, foot), body.thick, shade(limb, 0.86))
    for hip, foot in legs[2:]:
        pen.line((hip, foot), body.thick, limb if kind == "sheep" else shade(coat, 0.9))
        if kind == "poodle":
            pen.disc(foot[0], foot[1] + 1.3, 1.5, coat, rim=True)
    _tail(pen, kind, coat, -length, back)
    at = (length + body.head[0], back + body.head[1] - depth)
    if kind in ("horse", "poodle", "labrador", "cat"):
        neck = ((length - depth * 0.6, back - depth * 0.9), (at[0] - 0.4, at[1] - 0.6))
        pen.line(neck, depth * (0.75 if kind == "horse" else 0.62) * 2, coat)
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
    pen = pen.moved(x, back)
    if kind == "labrador":
        pen.line(((1, -1.5), (-2.5, 0.5), (-4, 3)), 1.7, coat)
    elif kind == "poodle":
        pen.line(((1, -1), (-1.4, 2.6)), 1.0, coat)
        pen.disc(-1.8, 3.6, 1.8, coat, rim=True)
    elif kind == "cat":
        pen.line(((1, -1), (-2, 0), (-3, 3.5), (-1.6, 6)), 1.5, coat)
    elif kind == "horse":
        pen.line(((1, -2), (-3, -4), (-3.4, -12)), 2.6, shade(coat, 0.55))
    elif kind == "cow":
        pen.line(((0.5, -1), (-1.6, -3), (-1.6, -9)), 0.9, shade(coat, 0.8))
        pen.disc(-1.6, -9.6, 1.2, shade(coat, 0.5))
    elif kind == "pig":
        pen.line(((0, -4), (-1.4, -3), (-1.6, -5), (-3, -4)), 0.9, shade(coat, 0.85))


def _extras(pen: Pen, kind: str, coat: Colour, back: float, at: Point) -> None:
    length = _PROPORTIONS[kind].length
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
        mane = ((length - 4, back - 1.5), (length - 0.6, back + 3.4), (at[0] - 3.4, at[1] + 2.0))
        pen.line(mane, 2.8, shade(coat, 0.55))
    elif kind == "poodle":
        pen.disc(length - 1.2, back - 1.6, 3.2, coat, rim=True)
        pen.disc(-length + 1, back - 2.2, 2.6, coat, rim=True)


def _face(pen: Pen, kind: str, coat: Colour, at: Point, *, asleep: bool = False) -> None:
    body, pen = _PROPORTIONS[kind], pen.moved(*at)
    rx, ry = body.skull
    reach, drop, nose = body.muzzle
    skin = coat if kind != "sheep" else DARK
    _ears(pen, kind, shade(coat, 0.74))
    tone = {"pig": shade(coat, 0.9), "cow": PINK}.get(kind, skin)
    pen.line(((0, -0.3), (reach, drop)), nose * 2, tone)
    pen.oval(0, 0, rx, ry, skin, rim=True)
    _snout(pen.moved(reach, drop), kind, tone, nose)
    _crown(pen, kind, coat)
    light = sum(skin) < 330
    eye: Colour = (250, 250, 250) if light else DARK
    x, y = rx * 0.3, ry * 0.25
    if asleep:
        pen.line(((x - 0.8, y), (x + 0.8, y)), 0.5, eye)
    else:
        pen.disc(x, y, 0.75, eye)
        if light:
            pen.disc(x + 0.15, y, 0.42, (20, 20, 24))


def _ears(pen: Pen, kind: str, ear: Colour) -> None:
    """Draw ears and horns, behind the head."""
    if kind == "cat":
        for x in (-2.1, 1.5):
            pen.polygon(((x - 1.5, 1.2), (x - 0.2, 5.4), (x + 1.5, 1.2)), ear)
            pen.polygon(((x - 0.6, 2.0), (x - 0.1, 4.0), (x + 0.7, 2.0)), PINK)
    elif kind == "horse":
        pen.polygon(((-2.4, 2), (-2.0, 5.6), (-0.2, 2.6)), ear)
    elif kind == "cow":
        pen.line(((-2.2, 3), (-3.0, 6.2)), 1.3, HORN)
        pen.line(((1.6, 3), (2.4, 6.2)), 1.3, HORN)
        pen.oval(-4.6, 1.6, 2.0, 1.1, ear)
    elif kind == "pig":
        pen.polygon(((-2.6, 2.2), (-2.0, 5.6), (0.4, 3.2)), ear)


def _snout(pen: Pen, kind: str, tone: Colour, nose: float) -> None:
    if kind == "cow":
        pen.oval(0, 0, nose, nose * 0.8, tone)
    elif kind == "pig":
        pen.oval(0.6, 0, 1.3, nose, shade(tone, 0.88))
    elif kind != "horse":
        tip = PINK if kind in ("cat", "sheep") else DARK
        pen.disc(nose * 0.7, nose * 0.4, 0.55 if kind == "cat" else 0.8, tip)


def _crown(pen: Pen, kind: str, coat: Colour) -> None:
    """Draw curls, wool or hanging ears over the head."""
    if kind == "poodle":
        pen.disc(-0.6, 2.4, 2.7, coat, rim=True)
        pen.oval(-2.2, -1.2, 1.6, 3.0, shade(coat, 0.86), rim=True)
    elif kind == "labrador":
        pen.oval(-1.8, -0.6, 1.5, 3.2, shade(coat, 0.74))
    elif kind == "sheep":
        pen.oval(-0.6, 2.6, 3.0, 1.9, coat, rim=True)
        pen.oval(-3.0, 0.4, 1.7, 0.9, DARK)


def _sitting(pen: Pen, kind: str, coat: Colour) -> None:
    body = _PROPORTIONS[kind]
    tall = body.leg + body.depth * 2 - 0.5
    dark = shade(coat, 0.86)
    _tail_on_ground(pen, kind, coat)
    chest = ((0.4, tall), (3.2, tall - 0.6), (3.2, 3.0), (1.6, 0.2))
    pen.blob(((-5.5, 1.6), (-4.2, 5.0), *chest, (-3.6, 0.0)), coat)
    pen.line(((2.0, tall * 0.6), (2.8, 0.8)), body.thick, dark)
    pen.oval(-2.2, 1.5, 3.2, 1.9, dark)
    if kind == "poodle":
        pen.disc(1.4, tall - 1.6, 3.0, coat, rim=True)
    _face(pen, kind, coat, (3.0, tall + body.skull[1] * 0.85))


def _tail_on_ground(pen: Pen, kind: str, coat: Colour) -> None:
    if kind == "poodle":
        pen.disc(-6.6, 3.2, 1.8, coat, rim=True)
    else:
        pen.line(((-4.6, 1.4), (-7.4, 1.2), (-8.8, 3.2)), 1.5, shade(coat, 0.9))


def _sleeping(pen: Pen, kind: str, coat: Colour) -> None:
    body = _PROPORTIONS[kind]
    _tail_on_ground(pen, kind, coat)
    back = ((-7.4, 0.4), (-7.0, 4.0), (-3.0, 6.4), (2.4, 5.6), (6.0, 2.6))
    pen.blob((*back, (6.2, 0.3), (0.0, 0.0)), coat)
    pen.line(((1.4, 0.9), (8.4, 0.9)), body.thick * 0.9, shade(coat, 0.88))
    if kind == "poodle":
        pen.disc(2.2, 4.2, 3.0, coat, rim=True)
    _face(pen, kind, coat, (5.4, body.skull[1] + 0.6), asleep=True)


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
