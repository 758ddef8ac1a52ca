"""How much of the text in pictures is read, and how quickly.

    python -m benchmarks.reading

Forty texts are drawn: in four sizes, upright and rotated by 90, 180, 270 and 12 degrees, clean and
on a noisy, tilted ground as JPEG of quality 50. A word counts if it is read whole, whatever its
case and the order of words. Scenes without text show what a picture costs in which there is none.
"""

from __future__ import annotations

import random
import re
import time
from io import BytesIO

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from benchmarks.report import Line, finish, machine
from hasse.scenes.composing import compose
from hasse.scenes.drawing.scene import draw
from hasse.service.pipelines.reading import Recogniser

_WORDS = (
    "bakery",
    "receipt",
    "total",
    "bread",
    "butter",
    "coffee",
    "table",
    "invoice",
    "street",
    "station",
    "platform",
    "exit",
    "open",
    "closed",
    "monday",
    "tuesday",
    "password",
    "network",
    "harbour",
    "museum",
    "ticket",
    "number",
    "paid",
    "card",
    "cash",
    "thank",
    "you",
    "welcome",
    "please",
    "door",
    "window",
    "garden",
    "river",
    "bridge",
    "church",
    "market",
    "school",
    "doctor",
    "pharmacy",
)
_SIZES, _TURNS = (14, 20, 32, 48), (0, 90, 180, 270, 12)
_SCENES = 20


def text(rng: random.Random) -> list[str]:
    """Return a few lines of words, numbers and prices."""
    lines = [" ".join(rng.sample(_WORDS, 3)) for _ in range(3)]
    return [
        *lines,
        f"total {rng.randint(1, 99)}.{rng.randint(10, 99)}",
        f"No {rng.randint(100, 9999)}",
    ]


def page(lines: list[str], size: int, rng: random.Random, *, clean: bool) -> Image.Image:
    """Draw lines, black on white, or grey on a noisy ground."""
    width = max(len(line) for line in lines) * size * 2 // 3 + 60
    picture = Image.new("RGB", (width, 50 + len(lines) * size * 3 // 2), "white")
    pen, font = ImageDraw.Draw(picture), ImageFont.load_default(size)
    for at, line in enumerate(lines):
        pen.text(
            (30, 25 + at * size * 3 // 2), line, fill="black" if clean else "#404040", font=font
        )
    if clean:
        return picture
    noise = np.random.default_rng(rng.randint(0, 999)).normal(0, 14, (*picture.size[::-1], 3))
    noisy = np.clip(np.asarray(picture) * 0.8 + 10 + noise, 0, 255).astype(np.uint8)
    file = BytesIO()
    Image.fromarray(noisy).filter(ImageFilter.GaussianBlur(0.6)).save(file, "JPEG", quality=50)
    return Image.open(file).convert("RGB")


def words_of(lines: list[str]) -> set[str]:
    """Return words and numbers in lower case."""
    return set(re.findall(r"[a-z0-9.]+", " ".join(lines).lower()))


def main() -> None:
    """Read all of them and print the table."""
    at, rng, reader = machine(), random.Random(0), Recogniser()
    recall: dict[tuple[bool, int], list[float]] = {}
    started = time.process_time()
    for clean in (True, False):
        for size in _SIZES:
            for turn in _TURNS:
                lines = text(rng)
                picture = page(lines, size, rng, clean=clean)
                ground = picture.getpixel((2, 2))
                turned = picture.rotate(turn, expand=True, fillcolor=ground)
                wanted, got = words_of(lines), words_of(reader.read(turned))
                recall.setdefault((clean, turn), []).append(len(wanted & got) / len(wanted))
    seconds = (time.process_time() - started) / (2 * len(_SIZES) * len(_TURNS))
    scenes = [draw(compose(random.Random(seed)), 640) for seed in range(_SCENES)]
    started = time.process_time()
    read = sum(bool(reader.read(scene)) for scene in scenes)
    without = (time.process_time() - started) / _SCENES
    clean_ones = [one for (clean, _), each in recall.items() if clean for one in each]
    lines_ = [
        Line(
            "words read, clean",
            f"{np.mean(clean_ones):.3f}",
            "0.9",
            bool(np.mean(clean_ones) >= 0.9),
        )
    ]
    for (clean, turn), each in recall.items():
        lines_.append(
            Line(f"{'clean' if clean else 'noisy'}, {turn} degrees", f"{np.mean(each):.3f}")
        )
    lines_ += [
        Line("processor seconds a picture with text", f"{seconds:.2f}"),
        Line("processor seconds a scene without", f"{without:.2f}"),
        Line("scenes in which text was read", f"{read} of {_SCENES}"),
    ]
    finish("Text in pictures", lines_, at)


if __name__ == "__main__":
    main()
