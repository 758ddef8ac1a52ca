"""Kill a backup at any of its writes, and look at what can be restored.

    python -m tests.index.backup.kills FOLDER COUNT

makes a first backup to a folder, a later one to the same folder, and one to a file, each COUNT
times, killed at another write, and prints one JSON line for each: the fault found, or null.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np

from hasse.index.backup.backup import back_up
from hasse.index.backup.restore import restore
from hasse.index.errors import BackupError
from hasse.index.store import Index
from hasse.index.verify import verify
from tests.index.backup.libraries import library, send
from tests.index.write_points import WritePoints, forked


def attempt(source: Path, before: Path | None, place: Path, stop_at: int) -> tuple[int, str]:
    """Back up, killed at one write; return how many there are, and what was wrong afterwards."""
    for path in (place, place.with_name(f"{place.name}.partial"), place.parent / "restored"):
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
    if before is not None:
        shutil.copytree(before, place)
    note = place.parent / "passed"

    def stopped() -> None:
        points = WritePoints(stop_at, full=False)
        back_up(source, place)
        note.write_text(str(points.passed))

    def check() -> None:
        refused = ""
        try:
            held = restore(place, place.parent / "restored", {})
        except BackupError as error:
            refused = str(error)
        if refused:
            assert before is None, refused
            assert "was cut short" in refused or "there is no backup" in refused, refused
        else:
            assert held.images in ((15, 16) if before is not None else (16,))
            report = verify(place.parent / "restored")
            assert report.ok, report.findings
        if refused or place.is_dir():  # a finished file is not written over
            assert back_up(source, place).manifest.images == 16

    _, fault = forked(stopped)
    if not fault:
        _, fault = forked(check)
    return int(note.read_text()), fault


def main() -> None:
    """Run the attempts that the command line asks for."""
    folder, count = Path(sys.argv[1]), int(sys.argv[2])
    source = library(folder / "library")
    back_up(source, folder / "before")
    with Index.open(source) as index:
        send(index, [60])
    for before, name in ((None, "new"), (folder / "before", "again"), (None, "file.tar")):
        total, fault = attempt(source, before, folder / name, 0)
        assert not fault, fault
        for point in np.linspace(total // (count + 1), total, count).round().astype(int).tolist():
            _, fault = attempt(source, before, folder / name, point)
            line = {"place": name, "point": point, "of": total, "fault": fault or None}
            sys.stdout.write(json.dumps(line) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
