"""Nodes of a Ray cluster on this machine, in a process of their own.

Each node has processes and an object store of its own, as a machine would. Started as a program it
obeys lines on standard input: "add CPUS [ADDRESS]", "kill NUMBER", "head" and "quit", and answers
each with one line.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).parents[2]
_STORE_BYTES = 80 << 20  # the least that Ray takes


class Nodes:
    """A head and `count` other nodes, until the block ends.

    Args:
        count: nodes beside the head, of `cpus` each.
        head_cpus: of the head.
        redis: HOST:PORT of a Redis where the head keeps what it knows, if any.
    """

    def __init__(self, count: int, cpus: int = 2, head_cpus: int = 0, redis: str = "") -> None:
        self.environment = os.environ | {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_worker_niceness": "0",
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        }
        if redis:
            self.environment |= {
                "RAY_REDIS_ADDRESS": redis,
                "RAY_external_storage_namespace": secrets.token_hex(8),
            }
        self._cpus = cpus
        command = [sys.executable, "-m", __name__, str(head_cpus)]
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

    def __exit__(self, *_: object) -> None:
        self.close()

    def add(self, cpus: int | None = None, address: str = "") -> int:
        """Start another node, at an address of its own if one is given; return its number."""
        return int(self._ask(f"add {self._cpus if cpus is None else cpus} {address}"))

    def kill(self, number: int) -> None:
        """Kill all processes of a node at once; number 0 is the head."""
        self._ask(f"kill {number}")

    def start_head(self) -> None:
        """Start the head again, after it was killed."""
        self._ask("head")

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


class FrontEnd:
    """A process of `hasse cluster serve` that joins some nodes, until the block ends.

    Args:
        nodes: what it joins.
        index: the folder of the index.
        options: further ones of the command.
        at: the address of the node that it belongs to. Ray takes the head where several nodes are
            on one machine.
    """

    def __init__(self, nodes: Nodes, index: Path, *options: str, at: str = "") -> None:
        program = [__name__, at] if at else ["hasse"]
        command = [sys.executable, "-m", *program, "cluster", "serve", "--library", str(index)]
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
            raise RuntimeError(f"the front end ended with status {self.process.wait()}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
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


def _serve(head_cpus: int) -> None:
    from ray.cluster_utils import Cluster

    with socket.create_server(("", 0)) as listener:
        port = listener.getsockname()[1]
    small = {"object_store_memory": _STORE_BYTES}
    head = {"num_cpus": head_cpus, "gcs_server_port": port, **small}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    nodes = {0: cluster.head_node}
    print(f"> {cluster.address}", flush=True)
    for line in sys.stdin:
        match line.split():
            case ["add", cpus, *address]:
                number = max(nodes) + 1
                place = {"node_ip_address": address[0]} if address else {}
                nodes[number] = cluster.add_node(num_cpus=int(cpus), **small, **place)
                print(f"> {number}", flush=True)
            case ["kill", number]:
                cluster.remove_node(nodes.pop(int(number)), allow_graceful=False)
                print("> killed", flush=True)
            case ["head"]:
                nodes[0] = cluster.add_node(**head)
                print("> started", flush=True)
            case _:
                break
    cluster.shutdown()
    print("> ended", flush=True)


def _run_at(address: str, words: list[str]) -> None:
    """Run a command of hasse as a process of the node at an address."""
    import ray

    from hasse.service.cli.app import main

    init: Any = ray.init
    ray.init = partial(init, _node_ip_address=address)
    sys.argv = ["hasse", *words]
    main()


if __name__ == "__main__":
    if sys.argv[2:]:
        _run_at(sys.argv[1], sys.argv[2:])
    else:
        _serve(int(sys.argv[1]))
