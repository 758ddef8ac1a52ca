"""A service in a process of its own, and what that process uses."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Usage:
    """What a service holds at one moment; memory includes that of the processes it began.

    `own_megabytes` is without the pages of files, such as points, which the system maps as they
    are read and takes back when it likes.
    """

    megabytes: float
    own_megabytes: float
    peak_megabytes: float
    descriptors: int
    threads: int


@dataclass(frozen=True, slots=True)
class Served:
    """A service that answers."""

    process: subprocess.Popen[str]
    host: str
    port: int

    def usage(self) -> Usage:
        """Return what the service holds now."""
        place = Path("/proc", str(self.process.pid))
        totals: Counter[str] = Counter()
        for pid in self._processes():
            try:
                status = Path("/proc", pid, "status").read_text()
            except FileNotFoundError:  # a decoder that ended since
                continue
            totals.update({n: int(v) for n, v in re.findall(r"^(\w+):\s+(\d+) kB", status, re.M)})
        descriptors, threads = (len(list((place / what).iterdir())) for what in ("fd", "task"))
        resident, own, peak = (totals[name] / 1024 for name in ("VmRSS", "RssAnon", "VmHWM"))
        return Usage(resident, own, peak, descriptors, threads)

    def cpu_seconds(self) -> float:
        """Return the processor time that the service has used, by all its processes."""
        return sum(map(_cpu_seconds, self._processes()))

    def _processes(self) -> list[str]:
        """Return the ids of the service and of the processes that it began, as decoders."""
        pid = str(self.process.pid)
        begun = [path.read_text().split() for path in Path("/proc", pid).glob("task/*/children")]
        return [pid, *(child for some in begun for child in some)]

    def terminate(self) -> None:
        """Ask it to stop."""
        self.process.send_signal(signal.SIGTERM)


@contextmanager
def served(index: Path, **settings: object) -> Iterator[Served]:
    """Serve an index on a free port while the block runs; the log goes nowhere.

    Raises:
        RuntimeError: the service did not come up; the message is what it said.
    """
    pairs = [f"--set={name}={value}" for name, value in settings.items()]
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "hasse",
            "serve",
            "--library",
            index,
            "--port",
            "0",
            *pairs,
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield Served(process, "127.0.0.1", _port(process))
    finally:
        if process.poll() is None:
            process.terminate()
        try:
            process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def _cpu_seconds(pid: str) -> float:
    fields = Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _port(process: subprocess.Popen[str]) -> int:
    said = []
    for line in process.stdout or ():
        said.append(line)
        found = re.match(r"Serving +http://[\d.]+:(\d+)", line)
        if found:
            return int(found[1])
    raise RuntimeError(f"the service did not start: {''.join(said)}")
