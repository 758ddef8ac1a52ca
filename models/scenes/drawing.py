"""Draw a scene: the place, soft shadows, then every figure."""

from __future__ import annotations

from random import Random

from PIL import Image, ImageDraw

from models.scenes.animals import draw_animal
from models.scenes.concepts import is_a
from models.scenes.pen import Pen
from models.scenes.people import draw_person
from models.scenes.places import canvas, draw_place, draw_rain
from models.scenes.scene import Scene, Situation
from models.scenes.staging import Cord, Figure, Placed, arrange
from models.scenes.things import draw_thing

OVERSAMPLING = 3
_GROUNDED = ("sled", "bicycle", "bench", "chair", "table", "car", "tree", "snowman", "ball")


def draw(scene: Scene, size: int = 192) -> Image.Image:
    """Draw a scene as an RGB picture of size x size pixels, the same for the same scene."""
    pixels = size * OVERSAMPLING
    situation = scene.situation
    place = situation.place or "park"
    rng = Random(scene.look)
    picture = canvas(pixels, place, situation.sky)
    brush = ImageDraw.Draw(picture)
    draw_place(brush, pixels, place, situation.sky, rng)
    placed = arrange(situation, rng)
    soft = ImageDraw.Draw(picture, "RGBA")
    grounds = [_ground(each, place, rng) for each in placed]
    order = sorted(range(len(placed)), key=lambda k: grounds[k], reverse=True)
    for k in order:
        if not placed[k].group.afloat:
            _shadows(soft, pixels, placed[k], grounds[k], situation)
    for k in order:
        _group(brush, pixels, placed[k], grounds[k], situation, rng)
    if situation.sky == "rainy":
        draw_rain(brush, pixels, rng)
    return picture.reduce(OVERSAMPLING)


def _ground(placed: Placed, place: str, rng: Random) -> float:
    if placed.group.afloat:
        return rng.uniform(30, 34) if place == "lake" else rng.uniform(34, 37)
    return rng.uniform(7, 13)


def _spot(placed: Placed, ground: float, x: float, y: float) -> tuple[float, float]:
    return placed.x + placed.facing * placed.scale * x, ground + placed.scale * y


def _pen(
    brush: ImageDraw.ImageDraw, pixels: int, placed: Placed, ground: float, figure: Figure
) -> Pen:
    x, y = _spot(placed, ground, figure.x, figure.y)
    unit = pixels / 100
    scale = unit * placed.scale * figure.unit
    pen = Pen(brush, x * unit, pixels - y * unit, scale, placed.facing * figure.facing)
    pen.rim_width = max(1, pixels // 250)
    return pen


def _shadows(
    soft: ImageDraw.ImageDraw, pixels: int, placed: Placed, ground: float, situation: Situation
) -> None:
    unit = pixels / 100
    for part in placed.group.parts:
        if isinstance(part, Cord) or part.held or part.pose == "fly":
            continue
        kind = situation.entities[part.index].kind
        if is_a(kind, "person"):
            half = 0.2 * part.unit
        elif is_a(kind, "animal"):
            half = 8.0 * part.unit * (1.6 if kind in ("horse", "cow") else 1.0)
        elif kind in _GROUNDED:
            half = {"ball": 4.5, "car": 22.0, "tree": 12.0, "snowman": 9.0}.get(
                kind, 14.0
            ) * part.unit
            half = 8.0 if kind == "chair" else half
        else:
            continue
        x, y = _spot(placed, ground, part.x, 0.0)
        x, y = x * unit, pixels - y * unit
        wide, tall = half * placed.scale * unit, 1.7 * unit
        soft.ellipse((x - wide, y - tall, x + wide, y + tall), fill=(20, 24, 50, 58))


def _group(
    brush: ImageDraw.ImageDraw,
    pixels: int,
    placed: Placed,
    ground: float,
    situation: Situation,
    rng: Random,
) -> None:
    for part in placed.group.parts:
        if isinstance(part, Cord):
            _cord(brush, pixels, placed, ground, part)
            continue
        pen = _pen(brush, pixels, placed, ground, part)
        entity = situation.entities[part.index]
        if is_a(entity.kind, "person"):
            draw_person(pen, entity, part, rng)
        elif is_a(entity.kind, "animal"):
            draw_animal(pen, entity, part.pose, rng)
        else:
            draw_thing(pen, entity, rng, held=part.held)


def _cord(
    brush: ImageDraw.ImageDraw, pixels: int, placed: Placed, ground: float, cord: Cord
) -> None:
    unit = pixels / 100
    (ax, ay), (bx, by) = cord.start, cord.end
    middle = ((ax + bx) / 2, (ay + by) / 2 - cord.sag)
    points = []
    for x, y in (cord.start, middle, cord.end):
        px, py = _spot(placed, ground, x, y)
        points.append((px * unit, pixels - py * unit))
    brush.line(points, fill=(70, 60, 62), width=max(1, pixels // 190), joint="curve")
