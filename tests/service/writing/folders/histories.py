"""Random histories of a followed folder, compared with a model of what its index must hold.

    python -m tests.service.writing.folders.histories FOLDER SEED COUNT

Each history makes random changes to a folder and its index (moves, swaps, edits, copies, removals
on disk and by name, broken files, unplugged sub-folders, syncs that are killed) and syncs now and
then. After each sync the index equals the model. One line is printed for each history that fails.
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import torch

from hasse.index.store import Index
from hasse.index.verify import verify
from hasse.models.checkpoints import checkpoint
from hasse.models.checkpoints.checkpoint import Checkpoint
from hasse.service.writing import indexing
from hasse.service.writing.folders.encoders import Encoders
from hasse.service.writing.folders.scan import scan
from hasse.service.writing.folders.sync import FolderSync
from hasse.service.writing.image_source import ImageSource
from tests.index.write_points import WritePoints, forked
from tests.service.collection import png
from tests.tiny import tiny_checkpoint

NAMES = ("a.png", "b.png", "sub/a.png", "sub/c.png", "sub/deep/d.png", "e.png")
BROKEN = b"\x89PNG\r\n\x1a\n broken"


@dataclass
class Model:
    """What the index of a folder must hold after a sync."""

    held: dict[str, set[str]] = field(default_factory=dict)  # the paths of each image, by SHA-256
    removed: set[str] = field(default_factory=set)  # SHA-256 of images that were removed by name
    closed: set[str] = field(default_factory=set)  # paths of their files, as long as they lie there

    def remove(self, sha256: str) -> None:
        """Remove an image by name."""
        self.removed.add(sha256)
        self.closed |= self.held.pop(sha256)

    def sync(self, files: dict[str, bytes]) -> None:
        """Follow the files that are there now, by path."""
        before = {path: sha256 for sha256, paths in self.held.items() for path in paths}
        self.closed &= files.keys()
        # A broken file stays what it was.
        now = {
            path: before.get(path, "") if content == BROKEN else digest(content)
            for path, content in files.items()
        }
        new = {sha256 for path, sha256 in now.items() if path not in self.closed} - self.removed
        found: defaultdict[str, set[str]] = defaultdict(set)
        for path, sha256 in now.items():
            if sha256 and (sha256 in self.held or sha256 in new):
                found[sha256].add(path)
        self.held = dict(found)


def digest(content: bytes) -> str:
    """Return the SHA-256 of a file's bytes."""
    return hashlib.sha256(content).hexdigest()


class History:
    """One folder, its index and the model of it."""

    def __init__(self, place: Path, loaded: Checkpoint, seed: int) -> None:
        shutil.rmtree(place, ignore_errors=True)
        self.root, self.index_folder = place / "pictures", place / "index"
        self.root.mkdir(parents=True)
        self.loaded, self.draw, self.steps = loaded, random.Random(seed), list[str]()
        self.model = Model()
        Index.create(self.index_folder, indexing.identity_of(loaded), threads=1).close()

    def run(self, steps: int) -> None:
        """Make random changes, and compare after each sync."""
        works = (self.write, self.write, self.move, self.copy, self.swap, self.delete, self.spoil)
        for _ in range(steps):
            step = self.draw.choice((*works, self.remove, self.sync, self.sync_killed))
            self.steps.append(step.__name__)
            step()
        self.sync()

    def files(self) -> dict[str, bytes]:
        """Return all files of the folder, by path."""
        every = sorted(path for path in self.root.rglob("*.png"))
        return {str(path): path.read_bytes() for path in every}

    def put(self, path: Path, content: bytes) -> None:
        """Write a file as if it had been at rest for long, at a time of its own."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        moment = self.draw.randrange(10**6, 10**9)
        os.utime(path, (moment, moment))

    def pick(self) -> Path:
        """Return the path of a file that is there, or of any."""
        there = [Path(path) for path in self.files()]
        return self.draw.choice(there) if there else self.root / NAMES[0]

    def any_path(self) -> Path:
        """Return a path that may be taken."""
        return self.root / self.draw.choice(NAMES)

    def write(self) -> None:
        """Write one of a few pictures, new or over another."""
        self.put(self.any_path(), png(self.draw.randrange(8)))

    def spoil(self) -> None:
        """Break a file."""
        self.put(self.any_path(), BROKEN)

    def move(self) -> None:
        """Move a file, perhaps over another."""
        source, target = self.pick(), self.any_path()
        if source.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            source.replace(target)

    def copy(self) -> None:
        """Copy a file, perhaps over another."""
        source, target = self.pick(), self.any_path()
        if source.exists() and source != target:
            self.put(target, source.read_bytes())

    def swap(self) -> None:
        """Let two files change places."""
        one, other = self.pick(), self.pick()
        if one.exists() and one != other:
            aside = one.with_suffix(".aside")
            one.rename(aside)
            other.rename(one)
            aside.rename(other)

    def delete(self) -> None:
        """Delete a file."""
        self.pick().unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove an image by name, as DELETE does."""
        if self.model.held:
            sha256 = self.draw.choice(sorted(self.model.held))
            with Index.open(self.index_folder, threads=1) as index:
                row = index.catalog.image_of(sha256)
                assert row is not None
                index.remove([row.id])
            self.model.remove(sha256)

    def sync(self) -> None:
        """Sync, and compare the index with the model."""
        files = self.files()
        self._sync()
        self.model.sync(files)
        report = verify(self.index_folder)
        assert report.ok, report.findings
        with Index.open(self.index_folder, threads=1) as index:
            known: defaultdict[str, set[str]] = defaultdict(set)
            for row in index.catalog.all_paths():
                sha256 = index.catalog.sha256s()[row.image_id]
                known[sha256].add(index.locations.absolute(row.path))
        assert dict(known) == self.model.held, (dict(known), self.model.held)

    def sync_killed(self) -> None:
        """Kill a sync at a random write, and sync again."""
        point = self.draw.randrange(1, 40)

        def stopped() -> None:
            WritePoints(point, full=False)
            self._sync()

        forked(stopped)
        self.sync()

    def _sync(self) -> None:
        def source() -> ImageSource:
            return ImageSource(batch_size=2, workers=1, block_seconds=0.0)

        with Index.open(self.index_folder, threads=1) as index:
            seen = scan([self.root], locations=index.locations, without=index.folder)
            sync = FolderSync(index, seen, remove=True, allow_empty=True)
            sync.apply(Encoders(lambda: self.loaded, source))


def main() -> None:
    """Run the histories that the command line asks for."""
    folder, seed, count = Path(sys.argv[1]).resolve(), int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    loaded = checkpoint.load(tiny_checkpoint(folder / "model"))
    for number in range(seed, seed + count):
        history = History(folder / "history", loaded, number)
        try:
            history.run(12)
        except Exception as error:
            sys.stdout.write(f"history {number}: {history.steps}: {error!r}\n")


if __name__ == "__main__":
    main()
