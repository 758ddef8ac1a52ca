"""Bytes changed at random, for as long as one likes: pictures, requests, and the files of an index.

    python -m benchmarks.reliability.fuzz [--seconds 60] [--seed 0]

A picture is decoded or refused by name; a body or a form is read or refused by name; an index
opens with what was put into it, or names the file that is damaged. Anything else is a finding: it
is printed with the seed and the number of the case, and `--case` runs that one alone.
"""

from __future__ import annotations

import io
import json
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from PIL import Image
from pydantic import ValidationError

from benchmarks.report import Line, finish, machine, parser_of
from hasse.index.errors import HasseIndexError
from hasse.index.search.query import Query
from hasse.index.store import Index
from hasse.index.types import KINDS, CaptionRow, ImageRow, ModelIdentity
from hasse.index.verify import verify
from hasse.models.images.decoding import open_picture
from hasse.models.images.limits import PictureError, PictureLimits
from hasse.service.errors import ServiceError
from hasse.service.http.bodies import parse_json
from hasse.service.http.multipart import parse_form
from hasse.service.questions.requests import ImageQuery

PIXELS = 1_000_000
ROWS = 40
DIMENSION = 16
EDITS = 4


class Finding(Exception):
    """Something was neither right nor refused by name."""


def change(rng: np.random.Generator, original: bytes) -> bytes:
    """Cut, overwrite, repeat, insert or remove a few bytes."""
    body = bytearray(original)
    for _ in range(int(rng.integers(1, EDITS + 1))):
        at = int(rng.integers(0, len(body) + 1))
        some = int(rng.integers(1, 64))
        match int(rng.integers(0, 6)):
            case 0:
                del body[at:]
            case 1:
                body[at : at + 1] = rng.bytes(1)
            case 2:
                body[at:at] = body[at : at + some]
            case 3:
                body[at:at] = rng.bytes(min(some, 8))
            case 4:
                del body[at : at + some]
            case _ if at < len(body):
                body[at] ^= 1 << int(rng.integers(0, 8))
    return bytes(body)


def seeds() -> list[bytes]:
    """Return small pictures of every format and of odd kinds."""
    pixels = np.random.default_rng(0).integers(0, 256, (24, 32, 3), dtype=np.uint8)
    picture = Image.fromarray(pixels)
    made: list[bytes] = []

    def add(image: Image.Image, form: str, **how: object) -> None:
        out = io.BytesIO()
        image.save(out, form, **how)
        made.append(out.getvalue())

    exif = Image.Exif()
    exif[0x0112] = 6
    add(picture, "JPEG", exif=exif)
    add(picture.convert("CMYK"), "JPEG")
    add(picture, "JPEG", progressive=True)
    for mode in ("RGB", "RGBA", "P", "1", "LA"):
        add(picture.convert(mode), "PNG")
    add(picture, "GIF", save_all=True, append_images=[picture.rotate(90)])
    add(picture, "WEBP")
    add(picture.convert("RGBA"), "WEBP", lossless=True)
    for form in ("AVIF", "BMP", "JPEG2000", "TIFF"):
        add(picture, form)
    for compression in ("jpeg", "tiff_lzw", "tiff_adobe_deflate"):
        add(picture, "TIFF", compression=compression)
    return made


class Pictures:
    """The decoder of strangers' pictures."""

    name = "pictures"

    def __init__(self, folder: Path) -> None:
        self._seeds = seeds()

    def run(self, rng: np.random.Generator) -> str:
        """Decode one; return what came of it."""
        body = change(rng, self._seeds[int(rng.integers(len(self._seeds)))])
        try:
            picture = open_picture(body, PictureLimits(PIXELS), 32)
        except PictureError as error:
            return error.reason
        if picture.mode != "RGB" or picture.width * picture.height > PIXELS:
            raise Finding(f"a picture of mode {picture.mode} and size {picture.size}")
        return "decoded"


class Requests:
    """The readers of JSON bodies and of forms."""

    name = "requests"

    def __init__(self, folder: Path) -> None:
        self._query = json.dumps({"caption": "a dog", "k": 7, "max_violation": 0.5}).encode()
        self._form = (
            b'--x\r\nContent-Disposition: form-data; name="k"\r\n\r\n3\r\n--x\r\n'
            b'Content-Disposition: form-data; name="image"; filename="a"\r\n\r\nabc\r\n--x--\r\n'
        )

    def run(self, rng: np.random.Generator) -> str:
        """Read one; return what came of it."""
        try:
            if rng.random() < 0.5:
                ImageQuery.model_validate(parse_json(change(rng, self._query)))
                return "query"
            parse_form("multipart/form-data; boundary=x", change(rng, self._form))
        except (ServiceError, ValidationError):
            return "refused"
        return "form"


class Indexes:
    """The readers of everything an index keeps on disk."""

    name = "index files"

    def __init__(self, folder: Path) -> None:
        self._whole, self._place = folder / "whole", folder / "changed"
        rng = np.random.default_rng(0)
        points = rng.random((2 * ROWS, DIMENSION), np.float32)
        points /= np.linalg.norm(points, axis=1, keepdims=True)
        identity = ModelIdentity("fuzz", "f" * 64, DIMENSION, "order", "")
        images = [ImageRow(n, f"{n}.jpg", f"{n}.jpg", 1, 1, "test") for n in range(ROWS)]
        captions = [CaptionRow(n, n, f"caption {n}") for n in range(ROWS)]
        with Index.create(self._whole, identity, threads=1) as index:
            index.add(images, points[:ROWS], captions, points[ROWS:])
        self._query = points[0]
        with Index.open(self._whole, threads=1) as index:
            self._right = self._answers(index)
        self._files = sorted(p for p in self._whole.rglob("*") if p.is_file() and p.stat().st_size)

    def run(self, rng: np.random.Generator) -> str:
        """Damage one file of a copy; return what came of it."""
        shutil.rmtree(self._place, ignore_errors=True)
        shutil.copytree(self._whole, self._place)
        source = self._files[int(rng.integers(len(self._files)))]
        name = source.relative_to(self._whole)
        before = source.read_bytes()
        after = change(rng, before)
        (self._place / name).write_bytes(after)
        try:
            with Index.open(self._place, threads=1) as index:
                answers = self._answers(index)
        except HasseIndexError as error:
            if not any(part in str(error) for part in (name.name, str(self._place))):
                raise Finding(f"{name}: the error names no file: {error}") from error
            return "refused"
        if after == before or answers == self._right:
            return "unharmed"
        try:
            findings = verify(self._place).findings
        except HasseIndexError:
            return "found by verify"
        # Text inside a row of the catalog has no checksum of its own.
        if findings or name.suffix == ".db":
            return "found by verify" if findings else "another text"
        raise Finding(f"{name}: other answers, and nothing is said")

    def _answers(self, index: Index) -> list[list[int]]:
        found = [index.search(Query(kind, 5), self._query) for kind in KINDS]
        described = [
            sorted(index.catalog.images(range(ROWS))),
            sorted(index.catalog.captions(range(ROWS))),
        ]
        return [[*map(int, answer.ids)] for answer in found] + described


TARGETS: tuple[Callable[[Path], Pictures | Requests | Indexes], ...] = (Pictures, Requests, Indexes)


def fuzz(
    seconds: float, seed: int, folder: Path, cases: Iterator[int]
) -> tuple[dict[str, Counter[str]], list[str]]:
    """Run cases in turn on every target; return what came of them, and the findings."""
    targets = [target(folder / str(at)) for at, target in enumerate(TARGETS)]
    outcomes = {target.name: Counter[str]() for target in targets}
    findings: list[str] = []
    end = time.monotonic() + seconds
    for case in cases:
        target = targets[case % len(targets)]
        try:
            outcomes[target.name][target.run(np.random.default_rng([seed, case]))] += 1
        except Exception:
            outcomes[target.name]["FINDING"] += 1
            findings.append(f"seed {seed}, case {case}\n{traceback.format_exc()[-2000:]}")
        if time.monotonic() > end:
            break
    return outcomes, findings


def main() -> None:
    """Fuzz and print."""
    parser = parser_of(__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", type=int, help="run this case alone")
    given = parser.parse_args()
    at = machine()
    cases = iter(range(1 << 62)) if given.case is None else iter([given.case])
    with tempfile.TemporaryDirectory() as folder:
        outcomes, findings = fuzz(given.seconds, given.seed, Path(folder), cases)
    for finding in findings[:10]:
        print(finding, file=sys.stderr)
    lines = [
        Line(
            f"{name}: {sum(counts.values()):,} cases",
            ", ".join(f"{count:,} {what}" for what, count in counts.most_common()),
            "read or refused by name",
            not counts["FINDING"],
        )
        for name, counts in outcomes.items()
    ]
    finish(f"Fuzzing for {given.seconds:g} s with seed {given.seed}", lines, at)


if __name__ == "__main__":
    main()
