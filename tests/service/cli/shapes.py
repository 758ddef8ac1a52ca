"""Drawn shapes with captions, and what most tests of commands do with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw

from tests.service.cli.shell import Outcome, hasse
from tests.tiny import TINY

COLOURS = ("red", "green", "blue", "yellow")
SHAPES = ("circle", "square")
TINY_FEATURES = ("--backbone", TINY, "--resize", "36", "--crop", "32")


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


def info(library: Path) -> dict[str, Any]:
    """Return what a library holds, as `hasse lab index info` prints it."""
    shown = done(hasse("lab index info", "--library", library, "--json"))
    document: dict[str, Any] = json.loads(shown.out)
    return document
