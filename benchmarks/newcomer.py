"""Follow the README in a bare Debian, word for word, with the wheel in place of a clone.

    make dist && python -m benchmarks.newcomer /var/tmp/image PHOTOGRAPHS

As root, with debootstrap. In a copy of the Debian of `benchmarks.container`, which it makes where
it is missing, the wheel of dist/ is installed from the package index into an empty environment.
Then the README is read from top to bottom: each command must end with status 0, those that serve
must get ready. PHOTOGRAPHS become ~/Pictures, and the pictures that the README names. Commands that
need a clone, Docker, or the weights of others are named and not run.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.container import PASSED, ROOT, SEARCHED, Stage, base, comes_up
from benchmarks.report import Line, finish, machine, parser_of

URL = "http://127.0.0.1:8000"
NOT_HERE = (
    "make ",
    "docker ",
    "HASSE_SITE=",
    "pip install -e",
    "hasse lab model make",
    "hasse use",
)
ACTIVATE = ". .venv/bin/activate"  # where the demo ends and one's own pictures begin
NAMED = ("photo.jpg", "one.jpg", "another.jpg")
_ENOUGH = 20  # photographs


def commands(readme: str) -> Iterator[str]:
    """Yield the commands of a shell, and the programs of Python, as the README has them."""
    for language, block in re.findall(r"^```(\w+)\n(.*?)^```", readme, re.M | re.S):
        if language == "python":
            yield f"python -c {shlex.quote(block)}"
        elif language == "sh":
            joined = re.sub(r"\\\n", " ", block)
            lines = (re.sub(r"\s+#.*", "", line).strip() for line in joined.splitlines())
            yield from filter(None, lines)


class Newcomer:
    """Somebody who types commands into one shell after another, in the same folder."""

    def __init__(self, root: Path) -> None:
        self._stage = Stage(root, {"PATH": SEARCHED, "HOME": "/root"}, "/root")
        self._environment = {key: os.environ[key] for key in PASSED if key in os.environ}
        self._environment |= self._stage.environment

    def start(self, command: str) -> subprocess.Popen[bytes]:
        """Start a command in the environment that the README activates."""
        active = f"if [ -d .venv ]; then . .venv/bin/activate; fi; {command}"
        return subprocess.Popen(self._stage.program(["bash", "-c", active]), env=self._environment)

    def run(self, command: str) -> Line:
        """Run a command to its end."""
        started = time.monotonic()
        status = self.start(command).wait()
        return _line(command, f"status {status}, {time.monotonic() - started:.1f} s", not status)

    @contextmanager
    def serving(self, command: str) -> Iterator[Line]:
        """Run a command that serves, from when it is ready to the end of the block."""
        started = time.monotonic()
        process = self.start(command)
        try:
            ready = comes_up(process, URL)
            took = f"ready after {time.monotonic() - started:.1f} s" if ready else "never ready"
            yield _line(command, took, ready)
        finally:
            process.terminate()
            process.wait()


def _line(command: str, measured: str, kept: bool) -> Line:
    return Line(_short(command), measured, "status 0", kept)


def _short(command: str) -> str:
    return f"`{' '.join(command.split())[:70]}`"


def _make(folder: Path, photographs: Path) -> Path:
    """Copy the Debian, with curl, photographs and the wheel; return its root."""
    root = folder / "newcomer"
    shutil.rmtree(root, ignore_errors=True)
    subprocess.run(["/bin/cp", "-a", base(folder, "python:3.11-slim"), root], check=True)
    home = root / "root"
    (home / "Pictures").mkdir()
    found = sorted(path for path in photographs.rglob("*.jpg"))[:_ENOUGH]
    for path in found:
        for file in path.parent.glob(f"{path.stem}.*"):  # with its captions
            shutil.copy(file, home / "Pictures")
    for name, path in zip(NAMED, found, strict=False):
        shutil.copy(path, home / name)
    (wheel,) = (ROOT / "dist").glob("*.whl")
    shutil.copy(wheel, home)
    return root


def _follow(newcomer: Newcomer, typed: Sequence[str]) -> list[Line]:
    lines = [newcomer.run("apt-get update -qq && apt-get install -qq -y curl")]
    lines.append(newcomer.run("python3 -m venv .venv"))
    lines.append(newcomer.run("pip install -q hasse_search-*.whl"))
    at = typed.index(ACTIVATE)
    with newcomer.serving("hasse demo") as ready:
        lines += [ready, *_each(newcomer, typed[:at])]
    lines += _each(newcomer, typed[at:])
    return lines


def _each(newcomer: Newcomer, typed: Sequence[str]) -> Iterator[Line]:
    for command in typed:
        if command.startswith(NOT_HERE):
            yield Line(_short(command), "not run here")
        elif command == "hasse serve":
            with newcomer.serving(command) as ready:
                yield ready
        else:
            yield newcomer.run(command)


def main() -> None:
    """Install, follow, and print the table."""
    parser = parser_of(__doc__)
    parser.add_argument("folder", type=Path, help="kept")
    parser.add_argument("photographs", type=Path)
    given, at = parser.parse_args(), machine()
    folder = given.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    newcomer = Newcomer(_make(folder, given.photographs))
    typed = list(commands((ROOT / "README.md").read_text(encoding="utf-8")))
    finish("README.md in a bare Debian", _follow(newcomer, typed), at)


if __name__ == "__main__":
    main()
