"""Kill a process at any write of the upgrade of a library, and look at what is left.

    python -m tests.compatibility.kills FOLDER COUNT

opens FOLDER/library COUNT times, as it was, each time killed before another statement of the
upgrade or before its commit, and prints one JSON line for each: the fault found, or null. FOLDER
is an unpacked library of 0.2.0; one whose catalog is in PostgreSQL is restored each time.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sql
from sqlalchemy import Engine

from hasse.index.catalog.catalog import Catalog
from hasse.index.catalog.database import catalog_url
from hasse.index.catalog.schema import FORMAT, UPGRADABLE_FORMATS
from hasse.index.creation import open_catalog
from hasse.index.verify import verify
from tests.compatibility.libraries import catalog_placed
from tests.index.write_points import forked


def upgrade(library: Path, stop_at: int, note: Path) -> None:
    """Open the catalog, killed before one statement; note how many there are."""
    passed = 0

    def count(*_: Any) -> None:
        nonlocal passed
        passed += 1
        if passed == stop_at:
            os.kill(os.getpid(), signal.SIGKILL)

    for event in ("before_cursor_execute", "commit"):
        sql.event.listen(Engine, event, count)
    open_catalog(library).close()
    note.write_text(str(passed))


def check(library: Path, images: list[int]) -> None:
    """The catalog is the old one or the new one, and becomes the new one with all its images."""
    catalog = Catalog(catalog_url(library))
    assert catalog.format() in (*UPGRADABLE_FORMATS, FORMAT)
    catalog.close()
    report = verify(library)
    assert report.ok, report.findings
    catalog = open_catalog(library)
    assert catalog.format() == FORMAT
    assert [image.id for image in catalog.all_rows()[0]] == images
    catalog.close()


def attempt(folder: Path, place: Path, stop_at: int) -> tuple[int, str]:
    """Upgrade a copy of the library, killed at one point; return how many there are, and faults."""
    shutil.copytree(folder, place)
    note = place / "passed"
    images = json.loads((place / "answers.json").read_text())["images"]
    with catalog_placed(place):
        status, fault = forked(lambda: upgrade(place / "library", stop_at, note))
        if not fault and stop_at and not os.WIFSIGNALED(status):
            fault = "it was not killed"
        if not fault:
            _, fault = forked(lambda: check(place / "library", images))
    passed = int(note.read_text()) if note.exists() else 0
    shutil.rmtree(place)
    return passed, fault


def main() -> None:
    """Run the attempts that the command line asks for."""
    folder, count = Path(sys.argv[1]), int(sys.argv[2])
    place = folder.with_name(f"{folder.name} attempt")
    total, fault = attempt(folder, place, 0)
    assert not fault, fault
    for point in np.linspace(1, total, min(count, total)).round().astype(int).tolist():
        _, fault = attempt(folder, place, point)
        sys.stdout.write(json.dumps({"point": point, "of": total, "fault": fault or None}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
