"""Random histories of a followed folder, compared with a model of what its index must hold.

    python -m tests.service.writing.folders.histories FOLDER SEED COUNT

Each history makes random changes to a folder and its index, and syncs now and then. It writes,
edits, moves, swaps, copies, links, breaks and deletes files, moves a folder, mounts a disk and
takes it away (where there is the right to), uploads pictures, removes images by name (each fourth
history beside a running service, over HTTP), kills a sync or a watch, and watches while files
change. After each sync the index equals the model. It prints a line for each that does
not, and one that counts them.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread, Timer

from hasse.index.store import Index
from hasse.index.verify import verify
from hasse.models.checkpoints import checkpoint
from hasse.models.checkpoints.checkpoint import Checkpoint
from hasse.service.app import create_app
from hasse.service.settings import Settings
from hasse.service.writing import indexing
from hasse.service.writing.folders import watch
from hasse.service.writing.folders.encoders import Encoders
from hasse.service.writing.folders.scan import scan
from hasse.service.writing.folders.sync import FolderSync
from hasse.service.writing.image_source import ImageSource
from tests.index.write_points import WritePoints, forked
from tests.service.client import Client
from tests.service.collection import png
from tests.service.writing.folders.folder import remember
from tests.service.writing.folders.history_model import STORED, Model, digest
from tests.tiny import tiny_checkpoint

NAMES = ("a.png", "b.png", "sub/a.png", "sub/c.png", "sub/deep/d.png", "disk/e.png", "disk/f.png")
BROKEN = b"\x89PNG\r\n\x1a\n broken"
PATIENCE = 120.0  # seconds for a watch to follow

# A watch that need not wait for files of cameras and networks.
setattr(watch, "STILL_SECONDS", 0.1)  # noqa: B010
setattr(watch, "_BURST_MILLISECONDS", 50)  # noqa: B010


class Disk:
    """A file system of its own, which is mounted in a folder and taken away; needs the right to."""

    def __init__(self, place: Path) -> None:
        self._place = place
        place.mkdir(parents=True, exist_ok=True)
        self.usable = _ran("mount", "-t", "tmpfs", "hasse-histories", str(place))
        self._at: Path | None = None

    @property
    def mounted(self) -> bool:
        """Whether it is mounted in the folder."""
        return self._at is not None

    def mount(self, at: Path) -> None:
        """Let a folder show the disk."""
        at.mkdir(parents=True, exist_ok=True)
        if self.usable and not self.mounted and _ran("mount", "--bind", str(self._place), str(at)):
            self._at = at

    def unmount(self) -> None:
        """Let the folder show what lies below the disk."""
        if self._at is not None:
            _ran("umount", "--lazy", str(self._at))
            self._at = None

    def clear(self) -> None:
        """Take the disk away, and all files from it."""
        self.unmount()
        for path in self._place.iterdir():
            path.unlink()

    def close(self) -> None:
        """Take the disk away for good."""
        self.unmount()
        if self.usable:
            _ran("umount", "--lazy", str(self._place))


def _ran(*command: str) -> bool:
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


class History:
    """One folder, its index and the model of it."""

    def __init__(self, place: Path, loaded: Checkpoint, disk: Disk, seed: int) -> None:
        disk.clear()
        shutil.rmtree(place, ignore_errors=True)
        self.root, self.index_folder = place / "pictures", place / "index"
        self.root.mkdir(parents=True)
        self.disk, self.loaded = disk, loaded
        self.draw, self.steps = random.Random(seed), list[str]()
        self.model = Model(f"{self.root}/disk/")
        self.client: Client | None = None
        self.served = seed % 4 == 0
        with Index.create(self.index_folder, indexing.identity_of(loaded), threads=1) as made:
            remember(made, self.root)
        self.put(self.root / "always.png", png(100))
        self.put(place / "outside.png", png(101))
        (self.root / "alias").symlink_to(self.root / "sub")

    def run(self, steps: int) -> None:
        """Make random changes, and compare after each sync."""
        changes = (self.write, self.write, self.move, self.copy, self.swap, self.delete)
        rarer = (self.spoil, self.link, self.link, self.move_folder, self.plug, self.plug)
        syncs = (self.sync, self.sync, self.sync_killed, self.follow, self.remove, self.upload)
        try:
            if self.disk.usable and self.draw.random() < 0.5:
                self.step(self.plug)
            for change in (self.write, self.write, self.write, self.link, self.sync):
                self.step(change)
            for _ in range(steps):
                self.step(self.draw.choice((*changes, *rarer, *syncs)))
            self.step(self.sync)
        finally:
            self.stop_service()
            self.disk.unmount()

    def step(self, change: Callable[[], object]) -> None:
        """Do one thing, and remember its name."""
        self.steps.append(change.__name__)
        change()

    def files(self) -> dict[str, bytes | None]:
        """Return the files of the folder by path; None for those whose bytes make no picture."""
        found: dict[str, bytes | None] = {}
        for at, _, names in os.walk(self.root):
            for path in (Path(at, name) for name in names if name.endswith(".png")):
                if os.path.realpath(path).startswith(f"{self.root}/"):
                    content = path.read_bytes() if path.is_file() else BROKEN
                    found[str(path)] = None if content == BROKEN else content
        return dict(sorted(found.items()))

    def put(self, path: Path, content: bytes) -> None:
        """Write a file as if it had been at rest for long, at a time of its own."""
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink():
            path.unlink()
        path.write_bytes(content)
        moment = self.draw.randrange(10**6, 10**9)
        os.utime(path, (moment, moment))

    def pick(self) -> Path:
        """Return the path of a file that is there, or of any."""
        there = [Path(path) for path in self.files() if not path.endswith("/always.png")]
        return self.draw.choice(there) if there else self.any_path()

    def any_path(self) -> Path:
        """Return a path that may be taken."""
        return self.root / self.draw.choice(NAMES)

    def write(self) -> None:
        """Write one of a few pictures, new or over another."""
        self.put(self.any_path(), png(self.draw.randrange(8)))

    def spoil(self) -> None:
        """Break a file."""
        self.put(self.any_path(), BROKEN)

    def link(self) -> None:
        """Put a link in the place of a file: to a file of the folder, out of it, or to nothing."""
        path = self.any_path()
        outside, nothing = self.root.parent / "outside.png", self.root / "sub" / "nothing.png"
        target = self.draw.choice((self.pick(), self.pick(), outside, nothing))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(target)

    def move(self) -> None:
        """Move a file, perhaps over another."""
        self._move(self.pick(), self.any_path())

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
            self._move(one, aside)
            self._move(other, one)
            self._move(aside, other)

    def _move(self, source: Path, target: Path) -> None:
        if os.path.lexists(source) and source != target:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            shutil.move(source, target)

    def delete(self) -> None:
        """Delete a file."""
        self.pick().unlink(missing_ok=True)

    def move_folder(self) -> None:
        """Give a folder another name, or its name back."""
        names = [self.root / "sub", self.root / "moved"]
        there, free = (
            [path for path in names if path.exists() is is_there] for is_there in (True, False)
        )
        if there and free:
            there[0].rename(free[0])

    def plug(self) -> None:
        """Mount the disk, or take it away."""
        if self.disk.mounted:
            self.disk.unmount()
        else:
            self.disk.mount(self.root / "disk")

    def remove(self) -> None:
        """Remove an image by name."""
        if self.model.held:
            sha256 = self.draw.choice(sorted(self.model.held))
            id_ = self._paths()[sha256][0]
            if self.served:
                assert self.service().request("DELETE", f"/images/{id_}").status_code == 204
            else:
                with Index.open(self.index_folder, threads=1) as index:
                    index.remove([id_])
            self.model.remove(sha256)

    def upload(self) -> None:
        """Send a picture to the service, where one runs."""
        if self.served:
            self.sync()
            picture = png(self.draw.randrange(8))
            sha256 = digest(picture)
            answer = self.service().post("/images", files={"image": ("sent.png", picture)})
            assert answer.status_code in (200, 201), answer.text
            stored = STORED in self._paths()[sha256][1]
            files = self.model.held.get(sha256, set())
            if all(Path(path).is_file() for path in files):
                assert stored is (not files or STORED in files)
            self.model.upload(sha256, stored=stored)

    def service(self) -> Client:
        """Return a client of the service, which runs from now on."""
        if self.client is None:
            settings = Settings(library=self.index_folder, device="cpu", open_writes=True)
            self.client = Client(create_app(settings))
            self.client.__enter__()
        return self.client

    def stop_service(self) -> None:
        """Stop the service."""
        if self.client is not None:
            self.client.__exit__(None, None, None)
            self.client = None

    def sync(self) -> None:
        """Sync, and compare the index with the model."""
        self._sync()
        self.compare()

    def sync_killed(self) -> None:
        """Kill a sync or a watch at a random write, and sync again."""
        self.stop_service()  # a fork must not take its threads
        point, work = self.draw.randrange(1, 40), self.draw.choice((self._sync, self._watch))

        def stopped() -> None:
            WritePoints(point, full=False)
            work()

        _, said = forked(stopped)
        assert not said, said
        self.sync()

    def follow(self) -> None:
        """Watch while files change, until the index is in step."""
        paths = [Path(path) for path, content in self.files().items() if content is not None]
        # What is seen in between would decide what broken files are, and which may come back.
        links = any(path.is_symlink() for path in self.root.rglob("*.png"))
        if self.model.closed or links or len(paths) < len(self.files()):
            return
        stop = Event()
        with Index.open(self.index_folder, threads=1) as index:
            watching = Thread(target=self._follower(index).run, args=(stop,))
            watching.start()
            try:
                for _ in range(4):
                    self.step(self.draw.choice((self.write, self.move, self.copy, self.delete)))
                    time.sleep(self.draw.random() / 5)
                self.model.sync(self.files(), mounted=self.disk.mounted)
                deadline = time.monotonic() + PATIENCE
                while self._found(index) != self.model.held and time.monotonic() < deadline:
                    time.sleep(0.05)
            finally:
                stop.set()
                watching.join()
        self.compare()

    def compare(self) -> None:
        """Require that the index is whole and equals the model, which follows the folder."""
        self.model.sync(self.files(), mounted=self.disk.mounted)
        report = verify(self.index_folder)
        assert report.ok, report.findings
        with Index.open(self.index_folder, threads=1) as index:
            found = self._found(index)
        assert found == self.model.held, (found, self.model.held)

    def _found(self, index: Index) -> dict[str, set[str]]:
        found: defaultdict[str, set[str]] = defaultdict(set)
        sha256s = index.catalog.sha256s()
        for row in index.catalog.all_paths():
            path = index.locations.absolute(row.path) if row.path.startswith("/") else STORED
            found[sha256s.get(row.image_id, "")].add(path)
        return dict(found)

    def _paths(self) -> dict[str, tuple[int, set[str]]]:
        with Index.open(self.index_folder, threads=1) as index:
            ids = {sha256: id_ for id_, sha256 in index.catalog.sha256s().items()}
            return {sha256: (ids[sha256], paths) for sha256, paths in self._found(index).items()}

    def _sync(self) -> None:
        with Index.open(self.index_folder, threads=1) as index:
            locations = index.catalog.locations(index.folder, find_missing=True)
            seen = scan([self.root], locations=locations, index_folder=index.folder)
            FolderSync(index, seen, remove=True).apply(self._encoders())

    def _watch(self) -> None:
        stop = Event()
        with Index.open(self.index_folder, threads=1) as index:
            timer = Timer(1.0, stop.set)
            timer.start()
            self._follower(index).run(stop)

    def _follower(self, index: Index) -> watch.FolderWatch:
        return watch.FolderWatch(index, self._encoders())

    def _encoders(self) -> Encoders:
        def source() -> ImageSource:
            return ImageSource(batch_size=2, workers=1, block_seconds=0.0)

        return Encoders(lambda: self.loaded, source)


def main() -> None:
    """Run the histories that the command line asks for; end with 1 if one fails."""
    folder, seed, count = Path(sys.argv[1]).resolve(), int(sys.argv[2]), int(sys.argv[3])
    loaded = checkpoint.load(tiny_checkpoint(folder / "model"))
    disk = Disk(folder / "disk")
    steps: Counter[str] = Counter()
    faults = 0
    try:
        for number in range(seed, seed + count):
            history = History(folder / "history", loaded, disk, number)
            try:
                history.run(12)
            except Exception as error:
                faults += 1
                sys.stdout.write(f"history {number}: {history.steps}: {error!r}\n")
                sys.stdout.flush()
            steps.update(history.steps)
    finally:
        disk.close()
    every = ", ".join(f"{name} {times:,}" for name, times in steps.most_common())
    sys.stdout.write(f"{count:,} histories, {faults} faults, {steps.total():,} steps: {every}\n")
    sys.exit(faults > 0)


if __name__ == "__main__":
    main()
