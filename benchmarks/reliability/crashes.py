"""Is anything lost or half served after a kill, or when the disk is full?

    python -m benchmarks.reliability.crashes [--seed 0] [--count 100]

Runs the crash tests, COUNT times for each work and way, at write
points that the seed chooses: every call that reaches the disk, the middle of every write, and both
sides of every commit. After each, the index is verified, opened, searched and changed again.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict

from benchmarks.reliability.served import ROOT
from benchmarks.report import Line, finish, machine, parser_of

HARNESSES = ("tests.index.crashes", "tests.service.crashes")
WAYS = {"kill": "killed", "full": "disk full"}


def crash(harness: str, folder: str, seed: int, count: int) -> list[dict[str, object]]:
    """Run one harness; return a row for each attempt.

    Raises:
        RuntimeError: it did not come to its end; the message is what it said.
    """
    done = subprocess.run(
        [sys.executable, "-m", harness, folder, str(seed), str(count)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{harness} ended with {done.returncode}: {done.stderr[-2000:]}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def main() -> None:
    """Crash and print."""
    parser = parser_of(__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    given = parser.parse_args()
    at = machine()
    attempts: Counter[tuple[object, object]] = Counter()
    faults: defaultdict[tuple[object, object], list[object]] = defaultdict(list)
    points: dict[object, object] = {}
    for harness in HARNESSES:
        with tempfile.TemporaryDirectory() as folder:
            for row in crash(harness, folder, given.seed, given.count):
                key = (row["work"], row["way"])
                attempts[key] += 1
                points[row["work"]] = row["of"]
                if row["fault"]:
                    faults[key].append(row["fault"])
                    print(row["fault"], file=sys.stderr)
    lines = [
        Line(
            f"{work}, {WAYS[str(way)]}",
            f"{count} of {points[work]} write points, {len(faults[work, way])} faults",
            "no fault",
            not faults[work, way],
        )
        for (work, way), count in attempts.items()
    ]
    finish(f"Crashes with seed {given.seed}", lines, at)


if __name__ == "__main__":
    main()
