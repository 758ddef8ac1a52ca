"""How well versions of pictures are found, and how long an exact self-join of points takes.

    python -m benchmarks.duplicates [FOLDER] [--pictures 200]
    python -m benchmarks.duplicates --join POINTS.npy --rows 1000000 [--share 0.45]

Six versions of each picture of FOLDER, or of drawn scenes, are put in a library: half as large, as
JPEG of quality 60, as PNG, cropped by 2 %, rotated by 90 degrees, and brighter. Recall is the share
of versions that are in one group with their picture, precision the share of pairs in groups that
are versions. `--join` grows real points to any number and joins them as `hasse duplicates --bursts`
does: within a share of the median distance of two, and within three seconds of each other. They are
taken in bursts of ten, one each second, at random times of twenty years.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image, ImageEnhance

from benchmarks.report import Line, finish, machine, parser_of
from benchmarks.search.growth import Growth
from hasse.index.kernels.threads import Workers
from hasse.index.search.self_join import self_join
from hasse.index.store import Index
from hasse.index.types import ImageRow, ModelIdentity
from hasse.models.images.limits import DEFAULT_LIMITS
from hasse.scenes.composing import compose
from hasse.scenes.drawing.scene import draw
from hasse.service.pipelines import duplicates

_MUST = 0.95, 0.99  # recall and precision, for size and compression
_PROMISED = ("half", "jpeg", "png")
_YEARS = 20 * 365 * 86_400_000  # milliseconds
_BURST, _WINDOW = 10, 3_000  # pictures, milliseconds


def versions(picture: Image.Image) -> Iterator[tuple[str, str, Image.Image]]:
    """Yield the kind, the suffix and the pixels of each version."""
    width, height = picture.size
    yield "original", ".jpg", picture
    yield "half", ".jpg", picture.resize((width // 2, height // 2), Image.Resampling.LANCZOS)
    yield "jpeg", ".jpeg", picture
    yield "png", ".png", picture
    at = round(width / 100), round(height / 100)
    yield "cropped", ".jpg", picture.crop((*at, width - at[0], height - at[1]))
    yield "rotated", ".jpg", picture.rotate(90, expand=True)
    yield "brighter", ".jpg", ImageEnhance.Brightness(picture).enhance(1.2)


def pictures(folder: Path | None, count: int) -> Iterator[Image.Image]:
    """Yield pictures of a folder, or drawn ones."""
    if folder is None:
        for seed in range(count):
            yield draw(compose(random.Random(seed)), 320)
        return
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))
    for path in random.Random(0).sample(paths, min(count, len(paths))):
        yield Image.open(path).convert("RGB")


def found(folder: Path | None, count: int) -> None:
    """Print recall and precision by kind of version."""
    at = machine()
    with tempfile.TemporaryDirectory() as place:
        rows: list[ImageRow] = []
        kinds: dict[int, tuple[int, str]] = {}
        for number, picture in enumerate(pictures(folder, count)):
            for kind, suffix, version in versions(picture):
                path = Path(place, f"{number}-{kind}{suffix}")
                quality = 60 if kind == "jpeg" else 90
                version.save(path, quality=quality)
                rows.append(ImageRow(len(rows), path.name, str(path), *version.size))
                kinds[rows[-1].id] = number, kind
        model = ModelIdentity("none", "0" * 64, 2, "order")
        with Index.create(Path(place, "index"), model) as index:
            index.add(rows, np.ones((len(rows), 2)))
            started = time.perf_counter()
            duplicates.hash_pictures(index, DEFAULT_LIMITS, lambda done, total: None)
            hashed = time.perf_counter()
            duplicates.find_versions(index, DEFAULT_LIMITS, lambda done, total: None)
            ended = time.perf_counter()
            groups = duplicates.same_files(index)
    together = [{kinds[file.image_id] for file in group.files} for group in groups]
    lines = [
        Line("pictures, and files", f"{number + 1}, {len(rows)}"),
        Line("files read and hashed a second", f"{len(rows) / (hashed - started):,.0f}"),
        Line("seconds to compare", f"{ended - hashed:.1f}"),
    ]
    for kind in dict.fromkeys(kind for _, kind in kinds.values() if kind != "original"):
        wanted = {number for number, own in kinds.values() if own == kind}
        right = sum(
            {(number, kind), (number, "original")} <= group
            for number in wanted
            for group in together
        )
        own = [(group, one) for group in together for one in group if one[1] == kind]
        pairs = [one[0] == other[0] for group, one in own for other in group if other != one]
        recall, precision = right / len(wanted), float(np.mean(pairs)) if pairs else 1.0
        must = kind in _PROMISED
        lines.append(
            Line(
                f"{kind}: recall / precision",
                f"{recall:.3f} / {precision:.3f}",
                f"{_MUST[0]} / {_MUST[1]}" if must else "",
                not must or (recall >= _MUST[0] and precision >= _MUST[1]),
            )
        )
    finish("Versions of pictures", lines, at)


def joined(points: Path, rows: int, share: float) -> None:
    """Print the time of a self-join, and whether it found the pairs of a hundred points."""
    at = machine()
    growth = Growth(np.load(points))
    grown = np.concatenate([block for _, block in growth.blocks(rows)])
    rng = np.random.default_rng(0)
    one, other = rng.integers(0, rows, (2, 1000))
    distance = share * float(np.median(np.linalg.norm(grown[one] - grown[other], axis=1)))
    begun = rng.integers(0, _YEARS, -(-rows // _BURST)).repeat(_BURST)[:rows]
    times = begun + 1000 * (np.arange(rows) % _BURST)
    workers = Workers()
    next(self_join(grown[:1000], distance, workers, times[:1000], _WINDOW), None)  # compiles
    started, used = time.perf_counter(), time.process_time()
    pairs = np.concatenate(list(self_join(grown, distance, workers, times, _WINDOW)))
    seconds, used = time.perf_counter() - started, time.process_time() - used
    wanted = np.unique([*one[:50], *pairs[:50, 0]])
    plain = 0
    for row in wanted:
        near = np.flatnonzero(np.abs(times - times[row]) <= _WINDOW)
        apart = np.square(grown[near] - grown[row]).sum(1, dtype=np.float32)
        plain += int((apart <= distance**2).sum()) - 1
    got = int(np.isin(pairs, wanted).sum())
    lines = [
        Line("points", f"{rows:,} x {grown.shape[1]}"),
        Line("distance, share of the median", f"{distance:.3f}, {share}"),
        Line("pairs", f"{len(pairs):,}"),
        Line("seconds, and of the processor", f"{seconds:,.1f}, {used:,.1f}"),
        Line("pairs of 100 points, plainly and joined", f"{plain}, {got}", "equal", plain == got),
    ]
    finish("Exact self-join of bursts", lines, at)


def main() -> None:
    """Read the options and print a table."""
    parser = parser_of(__doc__)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--pictures", type=int, default=200)
    parser.add_argument("--join", type=Path)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--share", type=float, default=0.45)
    options = parser.parse_args()
    if options.join is None:
        found(options.folder, options.pictures)
    else:
        joined(options.join, options.rows, options.share)


if __name__ == "__main__":
    main()
