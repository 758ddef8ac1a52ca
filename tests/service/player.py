"""Stands for a process of `service.runtime.sibling`: it takes a part in a folder and plays it.

"serves", until its input ends; "dies" after having served; or "fails" to begin.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

FOLDER = "HASSE_TEST_PARTS"


def main() -> int:
    """Play."""
    orders = json.loads(sys.stdin.readline())
    folder = Path(os.environ[FOLDER])
    for number, part in enumerate(json.loads((folder / "parts.json").read_text())):
        try:
            with (folder / str(number)).open("x") as taken:
                taken.write(orders["listens"])
        except FileExistsError:
            continue
        return play(number, part)
    raise LookupError("there are more processes than parts")


def play(number: int, part: str) -> int:
    """Play one part; return the status that the process ends with."""
    if part == "fails":
        report({"failure": f"number {number} failed"})
        return 1
    report({"serving": [f"this is {number}"]})
    if part == "dies":
        time.sleep(0.2)
        return 3
    sys.stdin.read()
    return 0


def report(told: dict[str, object]) -> None:
    """Tell who began this process."""
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
