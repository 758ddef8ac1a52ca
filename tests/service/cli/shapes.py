"""Drawn shapes with captions, and what most tests of commands do with them."""

from __future__ import annotations

import json
from pathlib import Path

from PIL import Image, ImageDraw

from tests.service.cli.shell import Outcome, hasse

COLOURS = ("red", "green", "blue", "yellow")
SHAPES = ("circle", "square")
TINY_FEATURES = ("--backbone", "torchvision/shufflenet_v2_x0_5", "--resize", "36", "--crop", "32")


def draw(folder: Path, colour: str, shape: str) -> Path:
    """Draw a captioned picture."""
    picture = Image.new("RGB", (64, 64), "white")
    paint = ImageDraw.Draw(picture)
    (paint.ellipse if shape == "circle" else paint.rectangle)((12, 12, 52, 52), fill=colour)
    path = folder / f"{colour}-{shape}.png"
    picture.save(path)
    path.with_suffix(".txt").write_text(f"a {colour} {shape}\na {shape}\n")
    return path


def done(outcome: Outcome) -> Outcome:
    assert outcome.status == 0, outcome.err
    return outcome


def info(index: Path) -> dict[str, object]:
    document: dict[str, object] = json.loads(done(hasse("index", "info", index, "--json")).out)
    return document
