"""Draw a scene: the place, soft shadows, then every figure."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from PIL import Image, ImageDraw

from hasse.scenes.concepts import is_a
from hasse.scenes.drawing.animals import draw_animal
from hasse.scenes.drawing.pen import Pen
from hasse.scenes.drawing.people import draw_person
from hasse.scenes.drawing.places import canvas, draw_place, draw_rain
from hasse.scenes.drawing.things import draw_thing
from hasse.scenes.layout import Cord
from hasse.scenes.placement import PlacedGroup, arrange
from hasse.scenes.scene import Scene, Situation

OVERSAMPLING = 3
_SHADOWS = {
    "ball": 4.5,
    "car": 22.0,
    "tree": 12.0,
    "snowman": 9.0,
    "chair": 8.0,
    "sled": 14.0,
    "bicycle": 14.0,
    "bench": 14.0,
    "table": 14.0,
}


def draw(scene: Scene, size: int = 192) -> Image.Image:
    """Draw a scene as an RGB picture of size x size pixels, the same for the same scene."""
    pixels = size * OVERSAMPLING
    situation = scene.situation
    place = situation.place or "park"
    rng = Random(scene.look)
    picture = canvas(pixels, place, situation.sky, rng)
    brush = ImageDraw.Draw(picture)
    draw_place(brush, pixels, place, situation.sky, rng)
    standing = [
        _GroundedGroup(each, _ground(each, place, rng), pixels) for each in arrange(situation, rng)
    ]
    standing.sort(key=lambda each: each.ground, reverse=True)  # the nearer ones over the farther
    soft = ImageDraw.Draw(picture, "RGBA")
    for each in standing:
        if not each.placed.group.afloat:
            each.shadows(soft, situation)
    for each in standing:
        each.figures(brush, situation, rng)
    if situation.sky == "rainy":
        draw_rain(brush, pixels, rng)
    return picture.reduce(OVERSAMPLING)


def _ground(placed: PlacedGroup, place: str, rng: Random) -> float:
    if placed.group.afloat:
        return rng.uniform(30, 34) if place == "lake" else rng.uniform(34, 37)
    return rng.uniform(7, 13)


@dataclass(frozen=True, slots=True)
class _GroundedGroup:
    """A placed group with its feet `ground` above the lower edge of a picture of `pixels`."""

    placed: PlacedGroup
    ground: float
    pixels: int

    def shadows(self, soft: ImageDraw.ImageDraw, situation: Situation) -> None:
        """Darken the ground under everything that stands on it."""
        unit = self.pixels / 100
        for part in self.placed.group.parts:
            if isinstance(part, Cord) or part.held or part.pose == "fly":
                continue
            half = _shadow(situation.entities[part.index].kind) * part.unit
            if half:
                x, y = self._pixel(part.x, 0.0)
                wide, tall = half * self.placed.scale * unit, 1.7 * unit
                soft.ellipse((x - wide, y - tall, x + wide, y + tall), fill=(20, 24, 50, 58))

    def figures(self, brush: ImageDraw.ImageDraw, situation: Situation, rng: Random) -> None:
        """Draw everybody and everything of the group, from the back to the front."""
        for part in self.placed.group.parts:
            if isinstance(part, Cord):
                self._cord(brush, part)
                continue
            entity = situation.entities[part.index]
            x, y = self._pixel(part.x, part.y)
            scale = self.pixels / 100 * self.placed.scale * part.unit
            pen = Pen(brush, x, y, scale, self.placed.facing * part.facing)
            pen.rim_width = max(1, self.pixels // 250)
            if is_a(entity.kind, "person"):
                draw_person(pen, entity, part, rng)
            elif is_a(entity.kind, "animal"):
                draw_animal(pen, entity, part.pose, rng)
            else:
                draw_thing(pen, entity, rng, held=part.held)

    def _pixel(self, x: float, y: float) -> tuple[float, float]:
        unit = self.pixels / 100
        across = self.placed.x + self.placed.facing * self.placed.scale * x
        return across * unit, self.pixels - (self.ground + self.placed.scale * y) * unit

    def _cord(self, brush: ImageDraw.ImageDraw, cord: Cord) -> None:
        (ax, ay), (bx, by) = cord.start, cord.end
        middle = ((ax + bx) / 2, (ay + by) / 2 - cord.sag)
        points = [self._pixel(x, y) for x, y in (cord.start, middle, cord.end)]
        brush.line(points, fill=(70, 60, 62), width=max(1, self.pixels // 190), joint="curve")


def _shadow(kind: str) -> float:
    """Return half the width of a kind's shadow, in its own units; 0 for none."""
    if is_a(kind, "person"):
        return 0.2
    if is_a(kind, "animal"):
        return 14.0 if kind in ("horse", "cow") else 8.0
    return _SHADOWS.get(kind, 0.0)
