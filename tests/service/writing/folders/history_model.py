"""What the index of a followed folder must hold, by the bytes of its files."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from dataclasses import dataclass, field

STORED = "stored by the index"  # the place of a picture that was uploaded


def digest(content: bytes) -> str:
    """Return the SHA-256 of a file's bytes."""
    return hashlib.sha256(content).hexdigest()


@dataclass
class Model:
    """The images of an index.

    Attributes:
        disk: the prefix of the paths in a folder where a disk is mounted at times.
        held: the paths of each image, by SHA-256.
        removed: SHA-256 of images that were removed by name.
        closed: paths of their files, as long as they lie there.
        known: whether a sync has seen the disk mounted.
    """

    disk: str
    held: dict[str, set[str]] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    closed: set[str] = field(default_factory=set)
    known: bool = False

    def remove(self, sha256: str) -> None:
        """Remove an image by name."""
        self.removed.add(sha256)
        self.closed |= self.held.pop(sha256)

    def upload(self, sha256: str, *, stored: bool) -> None:
        """Add an image over HTTP; `stored` where no file of it was there."""
        self.removed.discard(sha256)
        self.held.setdefault(sha256, set()).update([STORED] if stored else ())

    def sync(self, files: dict[str, bytes | None], *, mounted: bool) -> None:
        """Follow the files that are there, by path; None for bytes that make no picture."""
        before = {path: sha256 for sha256, paths in self.held.items() for path in paths - {STORED}}
        below = {path for path in before if path.startswith(self.disk)}
        gone = below - files.keys()
        if mounted:
            there = any(path.startswith(self.disk) for path in files)
            away = bool(below) and not there and not self.known
        else:
            away = self.known and bool(gone)
        self.known |= mounted and not away
        out_of_reach = {path for path in (gone | self.closed) - files.keys() if away}
        out_of_reach = {path for path in out_of_reach if path.startswith(self.disk)}
        self.closed &= files.keys() | out_of_reach
        now = {path: before[path] for path in out_of_reach & gone}
        for path, content in files.items():  # a broken file stays what it was
            now[path] = before.get(path, "") if content is None else digest(content)
        new = {sha256 for path, sha256 in now.items() if path not in self.closed} - self.removed
        found: defaultdict[str, set[str]] = defaultdict(set)
        for path, sha256 in now.items():
            if sha256 and (sha256 in self.held or sha256 in new):
                found[sha256].add(path)
        for sha256, paths in self.held.items():
            if STORED in paths:
                found[sha256].add(STORED)
        self.held = dict(found)
