"""Draw people: a body of rounded limbs in a pose, in body heights (feet 0, head about 1)."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from hasse.scenes.drawing.palette import HAIRS, HATS, SKINS, TROUSERS, dye
from hasse.scenes.drawing.pen import Colour, Pen, Point, shade
from hasse.scenes.layout import Figure
from hasse.scenes.scene import Entity


@dataclass(frozen=True, slots=True)
class _Build:
    hip: float
    shoulder: float
    head: float  # height of its centre
    radius: float
    half: float  # half the shoulders
    limb: float


_ADULT = _Build(hip=0.42, shoulder=0.7, head=0.855, radius=0.122, half=0.115, limb=0.085)
_CHILD = _Build(hip=0.34, shoulder=0.6, head=0.8, radius=0.178, half=0.125, limb=0.1)


class _Pose(NamedTuple):
    """Knee and foot of the far and the near leg, and the hands, from the ground."""

    far: tuple[Point, Point]
    near: tuple[Point, Point]
    front: Point
    back: Point


_POSES = {
    "stand": _Pose(((0.05, 0.2), (0.06, 0)), ((-0.05, 0.2), (-0.06, 0)), (0.17, 0.4), (-0.17, 0.4)),
    "walk": _Pose(
        ((-0.05, 0.21), (-0.18, 0.03)), ((0.1, 0.22), (0.16, 0)), (0.2, 0.45), (-0.18, 0.42)
    ),
    "run": _Pose(
        ((-0.06, 0.2), (-0.31, 0.2)), ((0.2, 0.28), (0.22, 0.04)), (0.27, 0.6), (-0.22, 0.5)
    ),
    "kick": _Pose(
        ((-0.04, 0.2), (-0.08, 0)), ((0.14, 0.24), (0.34, 0.12)), (0.24, 0.56), (-0.28, 0.58)
    ),
    "seat": _Pose(((0.22, 0.25), (0.24, 0)), ((0.19, 0.24), (0.2, 0)), (0.22, 0.33), (0.12, 0.33)),
    "rest": _Pose(
        ((0.2, 0.16), (0.4, 0.03)), ((0.22, 0.08), (0.42, 0)), (0.24, 0.24), (-0.14, 0.06)
    ),
    "cycle": _Pose(((0.1, 0.26), (0, 0.2)), ((0.12, 0.24), (0.06, 0.07)), (0.2, 0.5), (0.2, 0.5)),
    "ride": _Pose(((0.1, 0.3), (0.06, 0.12)), ((0.1, 0.28), (0.05, 0.1)), (0.2, 0.48), (0.2, 0.48)),
}
_HIPS = {"seat": 0.27, "rest": 0.07, "cycle": 0.43}  # in other poses that of the build
_LEANS = {"walk": 0.02, "run": 0.09, "kick": -0.04, "cycle": 0.1, "ride": 0.02}


@dataclass(frozen=True, slots=True)
class _Look:
    """Colours of one person."""

    pen: Pen
    kind: str
    build: _Build
    pose: str
    skin: Colour
    hair: Colour
    coat: Colour
    legs: Colour
    hat: Colour | None


def draw_person(pen: Pen, entity: Entity, figure: Figure, rng: Random) -> None:
    """Draw a person at the pen's origin."""
    look = _Look(
        pen=pen,
        kind=entity.kind,
        build=_CHILD if entity.kind in ("boy", "girl") else _ADULT,
        pose=figure.pose,
        skin=rng.choice(SKINS),
        hair=rng.choice(HAIRS),
        coat=dye(entity.colour or "grey", rng),
        legs=rng.choice(TROUSERS),
        hat=rng.choice(HATS) if entity.hat else None,
    )
    build, pose = look.build, _POSES[figure.pose]
    hip, lean = _HIPS.get(figure.pose, build.hip), _LEANS.get(figure.pose, 0.0)
    drop = build.hip - hip
    neck = (lean, build.shoulder - drop)
    head = (lean * 1.35 + 0.01, build.head - drop)
    shoulder = (neck[0] - build.half * 0.75, neck[1] - 0.03)
    _arm(look, shoulder, figure.back or pose.back, 0.84)
    _leg(look, hip, pose.far, 0.85)
    _leg(look, hip, pose.near, 1.0)
    _torso(look, hip, neck)
    _head(look, head)
    shoulder = (neck[0] + build.half * 0.7, neck[1] - 0.03)
    _arm(look, shoulder, figure.front or pose.front, 0.92)


def _leg(look: _Look, hip: float, leg: tuple[Point, Point], light: float) -> None:
    pen, width = look.pen, look.build.limb
    knee, foot = leg
    fill = look.legs if look.kind == "man" else look.skin
    pen.line(((knee[0] * 0.3, hip), knee, (foot[0], foot[1] + 0.03)), width, shade(fill, light))
    pen.oval(foot[0] + 0.025, foot[1] + 0.025, 0.06, 0.03, shade(look.legs, 0.6))
    if look.kind == "boy":
        hem = (knee[0] * 0.8, hip + (knee[1] - hip) * 0.8)
        pen.line(((0, hip), hem), width * 1.25, shade(look.legs, light))


def _arm(look: _Look, shoulder: Point, hand: Point, light: float) -> None:
    bend = 0.05 if hand[1] < shoulder[1] else -0.02
    elbow = ((shoulder[0] + hand[0]) / 2, (shoulder[1] + hand[1]) / 2 - bend)
    width = look.build.limb
    look.pen.line((shoulder, elbow, hand), width * 0.88, shade(look.coat, light))
    look.pen.disc(hand[0], hand[1], width * 0.46, look.skin)


def _torso(look: _Look, hip: float, neck: Point) -> None:
    x, top = neck
    half = look.build.half
    skirt = look.kind in ("woman", "girl")
    astride = look.pose in ("cycle", "ride")
    if skirt and hip < 0.3:
        knee = _POSES[look.pose].near[0]
        lap = (knee[0] + 0.03, knee[1] - 0.02)
        look.pen.line(((0.0, hip + 0.02), lap), look.build.limb * 1.7, look.coat)
        hem, low = half * 1.15, hip - 0.03
    elif skirt and astride:
        hem, low = half * 1.35, hip - 0.07
    elif look.kind == "woman":
        hem, low = half * 1.9, hip - 0.22
    elif look.kind == "girl":
        hem, low = half * 1.75, hip - 0.15
    else:
        hem, low = half * 1.1, hip - 0.05
    waist = (hip + top) / 2
    outline = (
        (x - half * 0.75, top + 0.02),
        (x + half * 0.75, top + 0.02),
        (x + half, top - 0.05),
        (x * 0.5 + half * 0.85, waist),
        (hem, low + 0.02),
        (hem * 0.9, low),
        (-hem * 0.9, low),
        (-hem, low + 0.02),
        (x * 0.5 - half * 0.85, waist),
        (x - half, top - 0.05),
    )
    look.pen.blob(outline, look.coat)


def _head(look: _Look, at: Point) -> None:
    x, y = at
    kind, skin, hair = look.kind, look.skin, look.hair
    pen = look.pen.moved(x, y, look.build.radius)  # the head is the unit circle
    if kind == "woman":
        mane = ((-1.25, -1.7), (-1.2, 0.4), (0, 1.2), (1.05, 0.4), (0.8, -1.5), (0, -1.2))
        pen.blob(mane, hair)
    elif kind == "girl":
        pen.oval(-1.25, -0.25, 0.42, 0.62, hair, rim=True)
        pen.oval(1.15, -0.25, 0.38, 0.6, hair, rim=True)
    pen.line(((-0.2 * x / look.build.radius, -1.4), (0, -0.6)), 0.7, shade(skin, 0.9))
    pen.disc(0, 0, 1, skin)
    if kind == "man":
        pen.pie(0, -0.05, 1.02, 1.02, hair, start=15, end=165)
        pen.oval(0.15, -0.2, 0.62, 0.5, skin)
        pen.oval(0.2, -0.3, 0.4, 0.14, hair)
    _hair(pen, kind, hair)
    for eye in (0.02, 0.56):
        pen.oval(eye, -0.02, 0.1, 0.14, (40, 32, 36))
    if kind != "man":
        pen.oval(0.3, -0.47, 0.26, 0.1, (190, 70, 70))
        pen.oval(-0.25, -0.36, 0.16, 0.11, shade(skin, 0.88))
    else:
        pen.oval(0.25, -0.52, 0.22, 0.08, (190, 90, 80))
    if look.hat is not None:
        crown = ((-0.85, 0.5), (-0.72, 1.35), (0, 1.55), (0.72, 1.35), (0.85, 0.5))
        pen.blob(crown, look.hat)
        pen.oval(0, 0.52, 1.55, 0.24, look.hat, rim=True)
        pen.line(((-0.72, 0.76), (0.72, 0.76)), 0.2, shade(look.hat, 0.6))


def _hair(pen: Pen, kind: str, hair: Colour) -> None:
    top = ((-1.06, -0.15), (-0.95, 0.65), (0, 1.14), (0.9, 0.7), (0.98, 0.25))
    fringe = ((0.4, 0.5), (-0.35, 0.42), (-0.72, 0.1))
    pen.blob((*top, *fringe), hair, rim=False)
    if kind == "boy":
        for tip in (-0.5, 0.05, 0.6):
            pen.polygon(((tip - 0.35, 0.85), (tip + 0.12, 1.42), (tip + 0.35, 0.8)), hair)
