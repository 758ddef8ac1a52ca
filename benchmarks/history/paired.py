"""Commands of this tree beside those of the last release: processor seconds, in turns.

    python -m benchmarks.history.paired

The last release is the commit that first kept its figures in benchmarks/history. Its files are
unpacked into a temporary folder and run by the same Python, with the same packages. Where it is not
in the history of this clone, or cannot do what is measured, that is said, and nothing fails.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from PIL import Image

from benchmarks.history.__main__ import FOLDER, read
from benchmarks.report import machine, parser_of, table

ROOT = FOLDER.parents[1]
_PICTURES = 12
_TURNS = 2


class UnknownReleaseError(Exception):
    """There is nothing to compare with; the message says why."""


def commit_of(release: str, root: Path = ROOT) -> str:
    """Return the commit that first kept the figures of a release.

    Raises:
        UnknownReleaseError: it is not in the history of this clone.
    """
    if _git(root, "rev-parse", "--is-shallow-repository").strip() != b"false":
        raise UnknownReleaseError("this clone has no history")
    kept = f"benchmarks/history/{release}.json"
    adding = _git(root, "log", "--diff-filter=A", "--format=%H", "--", kept).split()
    if not adding:
        raise UnknownReleaseError(f"{kept} is in no commit")
    return adding[-1].decode()


def seconds_of(tree: Path, arguments: Sequence[str]) -> float:
    """Return the processor seconds of a command of a tree.

    Raises:
        UnknownReleaseError: it fails.
    """
    command = [sys.executable, "-m", "hasse", *arguments]
    nothing = subprocess.DEVNULL
    alone = os.environ | {"HASSE_OCR": "false"}  # nothing goes on in the background
    process = subprocess.Popen(command, cwd=tree, env=alone, stdout=nothing, stderr=nothing)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise UnknownReleaseError(f"'hasse {' '.join(arguments)}' fails in {tree}")
    return used.ru_utime + used.ru_stime


def compared(trees: Sequence[Path], folder: Path) -> list[list[str]]:
    """Return the least seconds of each command in each tree, and their ratio."""
    pictures = folder / "pictures"
    pictures.mkdir()
    for seed in range(_PICTURES):
        pixels = np.random.default_rng(seed).integers(0, 256, (480, 640, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(pictures / f"{seed}.jpg")
    libraries = [str(folder / f"library-{at}") for at in range(len(trees))]
    commands = {
        f"add {_PICTURES} pictures": ["add", str(pictures), "--library"],
        "search": ["search", "a", "dog", "--library"],
    }
    rows = []
    for name, command in commands.items():
        each = [  # the first turn may prepare what is kept for later ones
            [
                seconds_of(tree, [*command, f"{library}-{turn}"])
                for tree, library in zip(trees, libraries, strict=True)
            ]
            for turn in range(_TURNS)
        ]
        least = [min(of) for of in zip(*each, strict=True)]
        rows.append([name, *(f"{of:.2f} s" for of in least), f"x {least[-1] / least[0]:.2f}"])
    return rows


def main() -> None:
    """Print the comparison, or why there is none."""
    parser_of(__doc__).parse_args()
    release, at = list(read())[-1], machine()
    try:
        commit = commit_of(release)
        with TemporaryDirectory(prefix="hasse-release-") as place:
            before = Path(place, "tree")
            with tarfile.open(fileobj=BytesIO(_git(ROOT, "archive", commit))) as files:
                files.extractall(before, filter="data")
            rows = compared([before, ROOT], Path(place))
    except (UnknownReleaseError, OSError, tarfile.TarError) as error:
        print(f"not compared with {release}: {error}")
        return
    print(f"\nProcessor seconds\n{at}\n\n{table(['', release, 'now', ''], rows)}")


def _git(root: Path, *arguments: str) -> bytes:
    command = ["git", *arguments]
    done = subprocess.run(command, cwd=root, capture_output=True, check=False)
    if done.returncode:
        raise UnknownReleaseError(f"git {arguments[0]}: {done.stderr.decode().strip()}")
    return done.stdout


if __name__ == "__main__":
    main()
