"""Paint the place of a scene: sky or wall, ground and what is always there."""

from __future__ import annotations

from random import Random

from PIL import Image, ImageDraw

from hasse.scenes.drawing.indoors import INDOORS, WALLS
from hasse.scenes.drawing.outdoors import OUTDOORS, Backdrop
from hasse.scenes.drawing.palette import mix
from hasse.scenes.drawing.pen import Colour, Pen, shade, star

_SKIES: dict[str, tuple[Colour, Colour]] = {
    "sunny": ((92, 178, 240), (206, 236, 250)),
    "rainy": ((112, 124, 140), (176, 186, 196)),
    "sunset": ((112, 84, 150), (255, 186, 120)),
    "night": ((18, 24, 66), (62, 72, 128)),
}


def canvas(pixels: int, place: str, sky: str | None, rng: Random) -> Image.Image:
    """Return an RGB picture of the sky's or the wall's gradient."""
    if sky:
        top, low = _SKIES[sky]
    else:
        top = rng.choice(WALLS[place])
        low = shade(top, 1.35)
    picture = Image.new("RGB", (pixels, pixels), low)
    brush = ImageDraw.Draw(picture)
    steps = 64
    for step in range(steps):
        tone = mix(top, low, step / (steps - 1))
        band = (0, pixels * step // steps, pixels, pixels * (step + 1) // steps)
        brush.rectangle(band, fill=tone)
    return picture


def draw_place(
    draw: ImageDraw.ImageDraw, pixels: int, place: str, sky: str | None, rng: Random
) -> None:
    """Paint a place over the canvas of its sky or wall."""
    pen = Pen(draw, 0, pixels, pixels / 100)
    if sky is None:
        INDOORS[place](pen, rng)
        return
    _heavens(pen, sky, rng)
    OUTDOORS[place](Backdrop(pen, sky, rng))


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
            star_x, star_y = rng.uniform(0, 100), rng.uniform(56, 100)
            pen.disc(star_x, star_y, rng.uniform(0.25, 0.6), (246, 244, 220))
        pen.disc(x, 88, 6.2, (250, 244, 208))
        pen.disc(x + 3, 90, 5.4, (22, 29, 74))
    else:
        _clouds(pen, rng, 5, (126, 136, 150))


def _clouds(pen: Pen, rng: Random, count: int, colour: Colour) -> None:
    for _ in range(count):
        x, y, r = rng.uniform(4, 96), rng.uniform(78, 96), rng.uniform(3, 4.6)
        for dx, dy, part in ((-1.5, 0, 0.8), (0, 0.5, 1.15), (1.6, 0, 0.9)):
            pen.oval(x + dx * r, y + dy * r, part * r * 1.25, part * r, colour)
