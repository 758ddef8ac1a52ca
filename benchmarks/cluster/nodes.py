"""Nodes of a Ray cluster on this machine, in a process of their own.

Each node has processes and an object store of its own, as a machine would. Started as a program it
obeys lines on standard input: "add", "kill NUMBER" and "quit", and answers each with one line.
"""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).parents[2]
_STORE_BYTES = 80 << 20  # the least that Ray takes


class Nodes:
    """A head and `count` other nodes, until the block ends."""

    def __init__(self, count: int, cpus: int = 2, head_cpus: int = 0) -> None:
        self.environment = os.environ | {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            "RAY_USAGE_STATS_ENABLED": "0",
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        }
        command = [sys.executable, "-m", __name__, str(cpus), str(head_cpus)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=self.environment,
            text=True,
            cwd=ROOT,
        )
        self.address = self._answer()
        self.numbers = [self.add() for _ in range(count)]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def add(self) -> int:
        """Start another node; return its number."""
        return int(self._ask("add"))

    def kill(self, number: int) -> None:
        """Kill all processes of a node at once."""
        self._ask(f"kill {number}")

    def close(self) -> None:
        """End all nodes."""
        if self._process.poll() is None:
            self._ask("quit")
        self._process.wait(60)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def _ask(self, line: str) -> str:
        assert self._process.stdin is not None
        print(line, file=self._process.stdin, flush=True)
        return self._answer()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        while line := self._process.stdout.readline():
            if line.startswith("> "):
                return line[2:].strip()
        raise RuntimeError("the nodes ended; see what they wrote")


class Entrance:
    """A process of `hasse cluster serve` that joins some nodes, until the block ends.

    Args:
        nodes: what it joins.
        index: the folder of the index.
        options: further ones of the command.
    """

    def __init__(self, nodes: Nodes, index: Path, *options: str) -> None:
        command = [sys.executable, "-m", "service.cli", "cluster", "serve", str(index)]
        joining = ["--address", nodes.address, "--port", "0", "--set=log_level=error", *options]
        self.process = subprocess.Popen(
            [*command, *joining],
            stdout=subprocess.PIPE,
            env=nodes.environment,
            text=True,
            cwd=ROOT,
        )
        self.url = ""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if found := re.search(r"Serving +(http://[\d.:]+)", line):
                self.url = found[1]
                break
        if not self.url:
            raise RuntimeError(f"the entrance ended with status {self.process.wait()}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self, seconds: float = 60) -> int:
        """Ask it to stop; return its status."""
        self.process.terminate()
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()
        finally:
            if self.process.stdout is not None:
                self.process.stdout.close()


def _serve(cpus: int, head_cpus: int) -> None:
    from ray.cluster_utils import Cluster

    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": head_cpus, "object_store_memory": _STORE_BYTES},
    )
    nodes = {0: cluster.head_node}
    print(f"> {cluster.address}", flush=True)
    for line in sys.stdin:
        match line.split():
            case ["add"]:
                number = max(nodes) + 1
                nodes[number] = cluster.add_node(num_cpus=cpus, object_store_memory=_STORE_BYTES)
                print(f"> {number}", flush=True)
            case ["kill", number]:
                cluster.remove_node(nodes.pop(int(number)), allow_graceful=False)
                print("> killed", flush=True)
            case _:
                break
    cluster.shutdown()
    print("> ended", flush=True)


if __name__ == "__main__":
    _serve(int(sys.argv[1]), int(sys.argv[2]))
