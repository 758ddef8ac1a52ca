"""Kill a sync or a watch at any of its write points, or fill its disk there, and go on.

    python -m tests.service.writing.crashes FOLDER SEED COUNT

brings an index in step with a folder that has changed in every way, COUNT times for each work and
way, stopped at write points chosen by the seed. Afterwards the index is whole, and the next run
ends in the state of an undisturbed one. It prints one JSON line for each attempt.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np

from hasse.index.errors import DiskFullError
from hasse.index.store import Index
from hasse.index.verify import verify
from hasse.models.checkpoints import checkpoint
from hasse.service.writing import indexing
from hasse.service.writing.folders.encoders import Encoders
from hasse.service.writing.folders.scan import scan
from hasse.service.writing.folders.sync import FolderSync
from hasse.service.writing.folders.watch import FolderWatch
from hasse.service.writing.image_source import ImageSource
from tests.index.write_points import WritePoints, forked
from tests.service.collection import picture
from tests.tiny import tiny_checkpoint

Run = Callable[[Index, Path], None]


class Attempts:
    """The folder that all attempts start from, and the state that they must end in."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.model = checkpoint.load(tiny_checkpoint(folder / "model"))
        self.works: dict[str, Run] = {"sync": self.sync, "watch": self.watch}
        self.place = folder / "at work"
        shutil.rmtree(self.place, ignore_errors=True)
        pictures = self.place / "pictures"
        for at in range(8):
            draw(pictures / f"{at}.png", at)
        (pictures / "0.txt").write_text("a dog\na cat\n")
        (pictures / "1.txt").write_text("a child\n")
        with Index.create(self.place / "index", indexing.identity_of(self.model), threads=1) as it:
            self.sync(it, pictures)
        shutil.copytree(self.place / "index", folder / "before")
        (pictures / "0.png").rename(pictures / "moved.png")  # without its captions
        draw(pictures / "1.png", 101)
        (pictures / "1.txt").write_text("a person\n")
        (pictures / "2.png").unlink()
        shutil.copy(pictures / "3.png", pictures / "copy.png")
        (pictures / "copy.txt").write_text("a blue park\n")
        (pictures / "4.png").rename(pictures / "four.png")
        draw(pictures / "4.png", 104)
        for at in range(200, 203):
            draw(pictures / f"{at}.png", at)
        self.expected: Any = None
        self.expected = self.attempt("sync", 0, full=False)["state"]

    def sync(self, index: Index, pictures: Path) -> None:
        """Bring the index in step."""
        encoders = Encoders(lambda: self.model, self._source)
        FolderSync(index, scan([pictures], index_folder=index.folder), remove=True).apply(encoders)

    def watch(self, index: Index, pictures: Path) -> None:
        """Follow the folder until the first pass has changed the index."""
        stop = Event()
        encoders = Encoders(lambda: self.model, self._source)
        watch = FolderWatch(index, encoders, on_change=lambda *_: stop.set())
        watch.run(stop)

    def _source(self) -> ImageSource:
        return ImageSource(batch_size=2, workers=1, block_seconds=0.0)

    def attempt(self, name: str, stop_at: int, *, full: bool) -> dict[str, Any]:
        """Do the work once, stopped at one write point; say what was wrong afterwards."""
        shutil.rmtree(self.place / "index", ignore_errors=True)
        shutil.copytree(self.folder / "before", self.place / "index")
        passed, found = self.folder / "passed", self.folder / "found"

        def stopped() -> None:
            points = WritePoints(stop_at, full=full)
            try:
                with Index.open(self.place / "index", threads=1) as index:
                    self.works[name](index, self.place / "pictures")
            except DiskFullError:
                assert full
            passed.write_text(str(points.passed))

        def check() -> None:
            report = verify(self.place / "index")
            assert report.ok, report.findings
            with Index.open(self.place / "index", threads=1) as index:
                self.sync(index, self.place / "pictures")
            report = verify(self.place / "index")
            assert report.ok, report.findings
            reached = state(self.place)
            found.write_text(json.dumps(reached))
            assert self.expected in (None, json.loads(json.dumps(reached))), reached

        status, said = forked(stopped)
        if not said:
            _, said = forked(check)
        return {
            "work": name,
            "way": "full" if full else "kill",
            "point": stop_at,
            "killed": os.WIFSIGNALED(status),
            "fault": said or None,
            "state": json.loads(found.read_text()) if not said else None,
        }

    def write_points(self, name: str) -> int:
        """Return how many write points the whole work has."""
        outcome = self.attempt(name, 0, full=False)
        assert outcome["fault"] is None, outcome["fault"]
        return int((self.folder / "passed").read_text())


def draw(path: Path, seed: int) -> None:
    """Draw a picture that was not written just now."""
    path.parent.mkdir(parents=True, exist_ok=True)
    picture(seed).save(path)


def state(place: Path) -> list[Any]:
    """Return what an index holds: rows, paths, captions, and where the points are."""
    with Index.open(place / "index", threads=1) as index:
        ids = sorted(index.catalog.sha256s())
        found = index.catalog.described_images(ids)
        points = index.points("image", ids)
        return [
            [
                found[id_].row._replace(added=None, taken=None),
                [path.path for path in found[id_].paths],
                sorted(caption.text for caption in found[id_].captions),
                np.round(points[id_].astype(float), 5).tolist(),
            ]
            for id_ in ids
        ]


def main() -> None:
    """Run the attempts that the command line asks for."""
    folder, seed, count = Path(sys.argv[1]).resolve(), int(sys.argv[2]), int(sys.argv[3])
    attempts = Attempts(folder)
    for name, way in (("sync", "kill"), ("sync", "full"), ("watch", "kill")):
        total = attempts.write_points(name)
        chosen = np.random.default_rng(seed).permutation(total)[:count] + 1
        for point in chosen.tolist():
            outcome = attempts.attempt(name, point, full=way == "full")
            del outcome["state"]
            sys.stdout.write(json.dumps({**outcome, "of": total}) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
