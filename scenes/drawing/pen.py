"""Draw rounded flat shapes in the local coordinates of a figure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from PIL import ImageDraw

Colour = tuple[int, int, int]
Point = tuple[float, float]


def shade(colour: Colour, factor: float) -> Colour:
    """Darken (factor < 1) or lighten towards white (factor > 1) a colour."""
    if factor <= 1:
        red, green, blue = (int(c * factor) for c in colour)
    else:
        red, green, blue = (int(255 - (255 - c) * (2 - factor)) for c in colour)
    return red, green, blue


class Pen:
    """Draws with the origin at (x, y) pixels, y upwards, one unit being `scale` pixels.

    `facing` -1 mirrors left and right. Every shape takes its fill; `rim` draws its edge darker.
    """

    def __init__(
        self, draw: ImageDraw.ImageDraw, x: float, y: float, scale: float, facing: int = 1
    ) -> None:
        self.draw = draw
        self.x = x
        self.y = y
        self.scale = scale
        self.facing = facing
        self.rim_width = 2

    def at(self, x: float, y: float) -> Point:
        """Return the pixel of a local point."""
        return self.x + self.facing * self.scale * x, self.y - self.scale * y

    def moved(self, x: float, y: float, scale: float = 1.0) -> Pen:
        """Return a pen with its origin at a local point and its unit scaled."""
        pen = Pen(self.draw, *self.at(x, y), self.scale * scale, self.facing)
        pen.rim_width = self.rim_width
        return pen

    def polygon(self, points: Sequence[Point], fill: Colour, *, rim: bool = False) -> None:
        """Fill a polygon with straight edges."""
        pixels = [self.at(x, y) for x, y in points]
        self.draw.polygon(pixels, fill=fill)
        if rim:
            edge = shade(fill, 0.78)
            self.draw.line([*pixels, pixels[0]], fill=edge, width=self.rim_width, joint="curve")

    def blob(self, points: Sequence[Point], fill: Colour, *, rim: bool = True) -> None:
        """Fill the smooth closed curve (Catmull-Rom) through the points."""
        self.polygon(smooth(points), fill, rim=rim)

    def line(self, points: Sequence[Point], width: float, fill: Colour) -> None:
        """Draw a line with round ends and joints, `width` in local units."""
        pixels = [self.at(x, y) for x, y in points]
        thick = max(1, round(width * self.scale))
        self.draw.line(pixels, fill=fill, width=thick, joint="curve")
        if thick > 3:
            r = thick / 2 - 0.5
            for px, py in (pixels[0], pixels[-1]):
                self.draw.ellipse((px - r, py - r, px + r, py + r), fill=fill)

    def disc(self, x: float, y: float, r: float, fill: Colour, *, rim: bool = False) -> None:
        """Fill a circle."""
        self.oval(x, y, r, r, fill, rim=rim)

    def oval(
        self, x: float, y: float, rx: float, ry: float, fill: Colour, *, rim: bool = False
    ) -> None:
        """Fill an upright ellipse."""
        px, py = self.at(x, y)
        rx, ry = rx * self.scale, ry * self.scale
        edge = shade(fill, 0.78) if rim else None
        box = (px - rx, py - ry, px + rx, py + ry)
        self.draw.ellipse(box, fill=fill, outline=edge, width=self.rim_width if rim else 0)

    def ring(self, x: float, y: float, r: float, width: float, fill: Colour) -> None:
        """Draw a circle's outline."""
        px, py = self.at(x, y)
        r *= self.scale
        thick = max(1, round(width * self.scale))
        self.draw.ellipse((px - r, py - r, px + r, py + r), outline=fill, width=thick)

    def box(
        self,
        left: float,
        bottom: float,
        right: float,
        top: float,
        fill: Colour,
        *,
        radius: float = 0.0,
        rim: bool = False,
    ) -> None:
        """Fill a rectangle with rounded corners."""
        (ax, ay), (bx, by) = self.at(left, top), self.at(right, bottom)
        corners = (min(ax, bx), min(ay, by), max(ax, bx), max(ay, by))
        edge = shade(fill, 0.78) if rim else None
        if radius:
            self.draw.rounded_rectangle(
                corners, radius * self.scale, fill=fill, outline=edge, width=self.rim_width
            )
        else:
            self.draw.rectangle(corners, fill=fill, outline=edge, width=self.rim_width)

    def pie(
        self, x: float, y: float, rx: float, ry: float, fill: Colour, *, start: float, end: float
    ) -> None:
        """Fill a sector of an ellipse, degrees clockwise from the right (not mirrored)."""
        px, py = self.at(x, y)
        rx, ry = rx * self.scale, ry * self.scale
        self.draw.pieslice((px - rx, py - ry, px + rx, py + ry), start, end, fill=fill)


def smooth(points: Sequence[Point], steps: int = 5) -> list[Point]:
    """Return a closed Catmull-Rom curve through the points, `steps` pieces to a segment."""
    curve: list[Point] = []
    for i in range(len(points)):
        near = [points[(i + k - 1) % len(points)] for k in range(4)]
        for step in range(steps):
            a, b, c, d = _weights(step / steps)
            (ax, ay), (bx, by), (cx, cy), (dx, dy) = near
            x = a * ax + b * bx + c * cx + d * dx
            y = a * ay + b * by + c * cy + d * dy
            curve.append((x, y))
    return curve


def _weights(t: float) -> tuple[float, float, float, float]:
    return (
        0.5 * (-t + 2 * t * t - t**3),
        0.5 * (2 - 5 * t * t + 3 * t**3),
        0.5 * (t + 4 * t * t - 3 * t**3),
        0.5 * (-t * t + t**3),
    )


def star(x: float, y: float, r: float, points: int) -> list[Point]:
    """Return the corners of a star of outer radius r."""
    return [
        (
            x + math.sin(math.pi * i / points) * (r if i % 2 == 0 else r * 0.45),
            y + math.cos(math.pi * i / points) * (r if i % 2 == 0 else r * 0.45),
        )
        for i in range(2 * points)
    ]
