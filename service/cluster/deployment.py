"""Deploys shards with Ray Serve, calls them, and shows and deletes them.

Each shard is a Serve application, whose replicas run on different nodes. Serve places the replicas,
sends each request to a free one, and replaces those that end. Its HTTP proxy is not used.
"""

from __future__ import annotations

import asyncio
import re
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from hasse.index.errors import HasseIndexError
from hasse.service.cluster.connection import ClusterError
from hasse.service.cluster.shard import Shard
from hasse.service.telemetry.collector import traces_of
from hasse.service.telemetry.stages import SPAN, traced

Result = TypeVar("Result")
Trace: TypeAlias = Mapping[str, str]  # headers of W3C Trace Context

_THREADS = 2  # batches that one replica works on at a time
_MAX_QUEUED = 64  # batches that may wait for one replica
_MESSAGE_CHARACTERS = 300  # of a message of Serve without an error
_HEALTH_SECONDS = 5.0  # between two health checks of a replica


@dataclass(frozen=True, slots=True)
class Layout:
    """The shards and replicas of an index on a cluster.

    Attributes:
        folder: the folder of the index, on storage that all nodes share.
        shards, replicas: the number of shards, and of replicas of each.
        threads: the threads of a search of one shard; a replica reserves as many processors.
        copies: a folder on each node that segments are copied to, or None.
    """

    folder: Path
    shards: int
    replicas: int = 1
    threads: int = 1
    copies: Path | None = None

    def application(self, shard: int) -> str:
        """Return the name of a shard's application."""
        return f"{self.prefix}-{self.shards}-{shard}"

    @property
    def prefix(self) -> str:
        """The prefix of the names of all applications of the index."""
        return _prefix_of(self.folder)


def _prefix_of(folder: Path) -> str:
    """Return the prefix of the names of the applications of an index."""
    folder = folder.resolve()
    name = re.sub(r"[^A-Za-z0-9]+", "-", folder.name)
    return f"hasse-{name}-{zlib.crc32(str(folder).encode()):08x}"


class Replica:
    """One replica of a shard, as Serve runs it."""

    def __init__(
        self, folder: str, number: int, shards: int, threads: int, copies: str | None
    ) -> None:
        copies_path = None if copies is None else Path(copies)
        self._shard = Shard(Path(folder), number, shards, threads, copies_path)
        self._number = number
        self._pool = ThreadPoolExecutor(_THREADS)
        self.traces = traces_of()

    async def search(self, *arguments: Any, trace: Trace | None = None) -> Any:
        """See `Shard.search`."""
        return await self._run_in_pool(self._run_traced, trace, self._shard.search, *arguments)

    async def points(self, *arguments: Any, trace: Trace | None = None) -> Any:
        """See `Shard.points`."""
        return await self._run_in_pool(self._run_traced, trace, self._shard.points, *arguments)

    async def check_health(self) -> None:
        """Renew the leases. Serve replaces the replica if this hangs."""
        with suppress(HasseIndexError):  # without the catalog, open generations are still searched
            await self._run_in_pool(self._shard.renew_leases)

    def _run_traced(
        self, trace: Trace | None, work: Callable[..., Result], *arguments: Any
    ) -> Result:
        if self.traces is None or trace is None:
            return work(*arguments)
        with self.traces.part(trace, f"shard {work.__name__}", shard=self._number):
            return work(*arguments)

    async def _run_in_pool(self, work: Callable[..., Result], *arguments: Any) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work, *arguments)


def deploy(ray: Any, layout: Layout) -> None:
    """Deploy all shards, or change the number of their replicas, and wait until they run.

    Raises:
        ClusterError: there are too few nodes, or a shard cannot be opened.
    """
    nodes = sum(node["Alive"] and node["Resources"].get("CPU", 0) > 0 for node in ray.nodes())
    if nodes < layout.replicas:
        raise ClusterError(
            f"{layout.replicas} replicas lie on as many nodes, and the cluster has {nodes}: start "
            "more with 'ray start --address=HEAD:6379', or ask for fewer replicas"
        )
    serve = ray.serve
    serve.start(proxy_location="Disabled")
    copies = None if layout.copies is None else str(layout.copies / layout.prefix)
    targets = []
    for number in range(layout.shards):
        deployment = serve.deployment(
            Replica,
            name="shard",
            num_replicas=layout.replicas,
            max_replicas_per_node=1,
            ray_actor_options={"num_cpus": layout.threads},
            max_ongoing_requests=_MAX_QUEUED,
            health_check_period_s=_HEALTH_SECONDS,
            health_check_timeout_s=2 * _HEALTH_SECONDS,
            graceful_shutdown_timeout_s=10,
            logging_config={"enable_access_log": False},  # front ends log each request
        )
        bound = deployment.bind(str(layout.folder), number, layout.shards, layout.threads, copies)
        name = layout.application(number)
        targets.append(serve.RunTarget(target=bound, name=name, route_prefix=None))
    try:
        serve.run_many(targets)
    except RuntimeError as error:
        raise ClusterError(_reason(serve.status(), layout) or str(error), "") from None


def _reason(status: Any, layout: Layout) -> str:
    """Return the error of the first shard that could not be opened, or ""."""
    for number in range(layout.shards):
        application = status.applications.get(layout.application(number))
        for deployment in application.deployments.values() if application else ():
            if reason := _sentence(deployment.message):
                return f"shard {number} cannot be opened: {reason}"
    return ""


def _sentence(message: str) -> str:
    """Return the last error in a message of Serve, or ""."""
    sentences = re.findall(r"^\S*Error: (.+)$", message or "", re.MULTILINE)
    return str(sentences[-1]) if sentences else ""


@dataclass(frozen=True, slots=True)
class ShardStatus:
    """The state of a shard according to Serve, and the number of its running replicas."""

    application: str
    shard: int
    shards: int
    state: str
    running: int
    replicas: int
    message: str


def status(ray: Any, folder: Path) -> list[ShardStatus]:
    """Return the state of each shard of an index, for every number of shards that is deployed."""
    shards = []
    for name, application in sorted(ray.serve.status().applications.items()):
        match = re.fullmatch(rf"{re.escape(_prefix_of(folder))}-(\d+)-(\d+)", name)
        if match is None:
            continue
        deployments = application.deployments.values()
        states = [deployment.replica_states for deployment in deployments]
        running = sum(state.get("RUNNING", 0) for state in states)
        messages = [
            _sentence(deployment.message)
            or " ".join(deployment.message.split())[:_MESSAGE_CHARACTERS]
            for deployment in deployments
        ]
        shards.append(
            ShardStatus(
                name,
                int(match[2]),
                int(match[1]),
                str(getattr(application.status, "value", application.status)),
                running,
                sum(sum(state.values()) for state in states),
                " ".join(messages),
            )
        )
    return shards


def stop(ray: Any, folder: Path, shards: int | None = None) -> list[str]:
    """Delete all shards of an index, or only those of one number of shards; return their names."""
    names = [
        shard.application
        for shard in status(ray, folder)
        if shards is None or shard.shards == shards
    ]
    for name in names:
        ray.serve.delete(name)
    return names


class RayShards:
    """Calls all shards at once; a shard that fails is called once more, on another replica.

    Args:
        ray: the module, connected to the cluster.
        layout: the shards.
        seconds: the time limit of one attempt.
    """

    def __init__(self, ray: Any, layout: Layout, seconds: float) -> None:
        handles = []
        for number in range(layout.shards):
            try:
                handles.append(ray.serve.get_app_handle(layout.application(number)))
            except (ray.serve.exceptions.RayServeException, ValueError, KeyError):
                raise ClusterError(
                    f"the cluster has no shard {number} of {layout.shards} of {layout.folder}: "
                    f"deploy them with 'hasse cluster serve {layout.folder} --shards "
                    f"{layout.shards} --replicas R'"
                ) from None
        self._handles, self._seconds = handles, seconds

    def gather(self, method: str, arguments: Sequence[tuple[Any, ...] | None]) -> list[Any]:
        """Call a method of every shard that has arguments; see `Shards`."""
        with traced("shards"):
            return self._gather(method, arguments)

    def _gather(self, method: str, arguments: Sequence[tuple[Any, ...] | None]) -> list[Any]:
        results: list[Any] = [None] * len(arguments)
        remaining = {at: args for at, args in enumerate(arguments) if args is not None}
        for _ in range(2):
            responses = {at: self._send(at, method, args) for at, args in remaining.items()}
            deadline = time.monotonic() + self._seconds
            for at, response in responses.items():
                try:
                    results[at] = response.result(timeout_s=max(0.0, deadline - time.monotonic()))
                    del remaining[at]
                except Exception as error:
                    results[at] = error
                    response.cancel()
            if not remaining:
                break
        return results

    def _send(self, at: int, method: str, args: tuple[Any, ...]) -> Any:
        span = SPAN.get()
        trace = None if span is None else span.headers()
        return getattr(self._handles[at], method).remote(*args, trace=trace)
