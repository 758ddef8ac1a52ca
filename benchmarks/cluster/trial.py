"""What a cluster on this machine does: equal answers, overhead, losses, writes, another plan."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import sqlalchemy as sql
from PIL import Image

from benchmarks.cluster.nodes import FrontEnd, Nodes
from benchmarks.reliability.connection import Connection, search
from benchmarks.report import Line
from hasse.index.search.query import Answer, Query
from hasse.index.store import Index
from hasse.index.types import Points
from hasse.service.cluster.index import ClusterIndex

CLIENTS = 16
_BATCH = 32


@dataclass(slots=True)
class Asked:
    """What clients that repeat a request once were answered."""

    seconds: list[float] = field(default_factory=list)
    right: int = 0
    wrong: int = 0
    saved: int = 0  # by the second attempt
    failed: Counter[str] = field(default_factory=Counter)

    @property
    def words(self) -> str:
        """Counts of answers and the 99th percentile of their time."""
        slow = float(np.percentile(self.seconds, 99)) if self.seconds else float("nan")
        failed = ", ".join(f"{count} x {what}" for what, count in self.failed.items()) or "0"
        return (
            f"{self.right:,} right, {self.wrong} wrong, {self.saved} by a second attempt, "
            f"failed {failed}; p99 {1e3 * slow:.0f} ms"
        )

    def line(self, what: str, failures: int = 0, promised: str = "0 failed") -> Line:
        """Return the line of the table; `failures` may be without an answer."""
        kept = not self.wrong and self.failed.total() <= failures
        return Line(what, self.words, f"0 wrong, {promised}", kept)


def answers_and_overhead(
    local: Index, cluster: ClusterIndex, points: Points, count: int
) -> list[Line]:
    """Compare answers with those of one process; measure what the way to the shards takes."""
    query, answered = Query("image", 10), []
    alone: list[float] = []
    for point in points[:count]:
        started = time.perf_counter()
        found = cluster.search(query, point)
        alone.append(time.perf_counter() - started - sum(found.seconds))
        answered.append(found)
    uncertified = sum(not found.certified for found in answered)
    # Searched here afterwards: between two queries it would cool what the next one needs.
    pairs = zip(answered, points, strict=False)
    unequal = sum(not _equal(found, local.search(query, point)) for found, point in pairs)
    batches: list[float] = []
    worked = time.process_time()
    for at in range(0, count - _BATCH, _BATCH):
        started = time.perf_counter()
        answers = cluster.search_batch(query, points[at : at + _BATCH])
        took = time.perf_counter() - started
        batches.append((took - _BATCH * sum(answers[0].seconds)) / _BATCH)
    worked = 1e3 * (time.process_time() - worked) / max(1, len(batches))
    one, each = 1e3 * float(np.median(alone)), 1e3 * float(np.median(batches))
    return [
        Line(
            f"{count:,} answers, compared with one process",
            f"{count - unequal:,} equal, {count - uncertified:,} certified",
            "all",
            not unequal and not uncertified,
        ),
        Line("scatter and gather of one query, median", f"{one:.1f} ms", "5 ms", one <= 5),
        Line(
            f"of each of {_BATCH} queries together, median", f"{each:.2f} ms", "0.5 ms", each <= 0.5
        ),
        Line(f"processor time of the front end for {_BATCH} queries together", f"{worked:.1f} ms"),
    ]


def _equal(first: Answer, second: Answer) -> bool:
    return np.array_equal(first.ids, second.ids) and np.array_equal(
        first.violations, second.violations
    )


def under_load(
    front_ends: Sequence[str],
    expected: dict[str, list[int]],
    seconds: float,
    events: Callable[[float], Coroutine[Any, Any, None]] | None = None,
) -> Asked:
    """Ask for a while by 16 clients, each at a front end, and at the next one where that fails.

    `events` runs beside them, and is told for how long.
    """
    asked, ends = Asked(), time.monotonic() + seconds

    async def client(number: int) -> None:
        captions = itertools.cycle(list(expected)[number::CLIENTS])
        connections: dict[str, Connection] = {}
        for caption in captions:
            if time.monotonic() > ends:
                break
            started, reason = time.perf_counter(), ""
            for attempt in range(2):
                url = front_ends[(number + attempt) % len(front_ends)]
                found = await _try(connections, url, caption)
                if isinstance(found, str):
                    reason = found
                    await asyncio.sleep(0.2)
                    continue
                ids, certified = found
                asked.seconds.append(time.perf_counter() - started)
                good = certified and ids == expected[caption]
                asked.right, asked.wrong = asked.right + good, asked.wrong + (not good)
                asked.saved += attempt
                break
            else:
                asked.failed[reason] += 1
        for connection in connections.values():
            await connection.close()

    async def every() -> None:
        beside = [] if events is None else [events(seconds)]
        await asyncio.gather(*(client(number) for number in range(CLIENTS)), *beside)

    asyncio.run(every())
    return asked


async def _try(
    connections: dict[str, Connection], url: str, caption: str
) -> tuple[list[int], bool] | str:
    """Return the ids of the hits and whether they are certified, or why there is no answer."""
    parts = httpx.URL(url)
    try:
        connection = connections.get(url)
        if connection is None or not connection.is_open:
            connection = connections[url] = await Connection.open(parts.host, parts.port or 80)
        reply = await connection.ask(search(caption))
    except OSError as error:
        return type(error).__name__
    if reply.status != 200:
        return str(reply.status)
    found = json.loads(reply.body)
    return [hit["image_id"] for hit in found["hits"]], found["certified"]


def killing(nodes: Nodes, every: float) -> Callable[[float], Coroutine[Any, Any, None]]:
    """Return what kills a node and starts another one, again and again, with a pause between."""

    async def events(seconds: float) -> None:
        ends = time.monotonic() + seconds
        while time.monotonic() + every < ends:
            await asyncio.sleep(every)
            number = nodes.numbers.pop(0)
            await asyncio.to_thread(nodes.kill, number)
            nodes.numbers.append(await asyncio.to_thread(nodes.add))

    return events


def after(seconds: float, what: Callable[[], object]) -> Callable[[float], Any]:
    """Return what does something once, beside the clients."""

    async def events(_: float) -> None:
        await asyncio.sleep(seconds)
        await asyncio.to_thread(what)

    return events


def head_killed(
    nodes: Nodes, index: Path, urls: Sequence[str], expected: dict[str, list[int]], replicas: int
) -> Iterator[Line]:
    """Kill the head, start it again, and see that it replaces what a further node takes away."""
    nodes.kill(0)
    yield under_load(urls, expected, 30).line("the head is killed: the 30 s after that")
    yield under_load(urls, expected, 20, after(1, nodes.start_head)).line("the head starts again")
    nodes.kill(nodes.numbers.pop(0))
    nodes.numbers.append(nodes.add())
    took = full_strength(nodes, index, replicas)
    yield Line("then a node is killed, a new one joins: full strength", f"{took:.0f} s later")


def head_gone(nodes: Nodes, url: str, expected: dict[str, list[int]], limit: float = 120) -> Line:
    """Kill the head for good; see for how long there are answers."""
    nodes.kill(0)
    started, last = time.monotonic(), 0.0
    while time.monotonic() < started + limit and under_load([url], expected, 1).right:
        last = time.monotonic() - started
    return Line("the head is killed and stays away: answers go on", f"{last:.0f} s")


def writes(writer: str, reader: str, additions: int, deletions: int) -> tuple[Line, list[int]]:
    """Add and delete through one front end; look for each through another one at once."""
    missed, ids = 0, []
    drawn = np.random.default_rng(1)
    with httpx.Client(base_url=writer, timeout=60) as change, httpx.Client(base_url=reader) as look:

        def present(image_id: int) -> bool:
            body = {"caption": "a red square", "k": 1, "image_ids": [image_id]}
            answer = look.post("/search/images", json=body)
            return bool(answer.raise_for_status().json()["searched"] == 1)

        for _ in range(additions):
            file = BytesIO()
            Image.fromarray(drawn.integers(0, 256, (24, 24, 3), np.uint8)).save(file, "PNG")
            added = change.post("/images", files={"image": ("n.png", file.getvalue())})
            ids.append(int(added.raise_for_status().json()["image_id"]))
            missed += not present(ids[-1])
        for _ in range(deletions):
            gone = ids.pop(0)
            change.delete(f"/images/{gone}").raise_for_status()
            missed += present(gone)
    said = f"{missed} missed by the next search"
    what = f"{additions:,} additions, {deletions} deletions, seen through another front end"
    return Line(what, said, "0", not missed), ids


def still_there(url: str, ids: Sequence[int]) -> Line:
    """Look for images that were added before a front end was killed."""
    with httpx.Client(base_url=url) as client:
        lost = sum(client.get(f"/images/{image_id}").status_code != 200 for image_id in ids)
    return Line("of these, after that front end was killed", f"{lost} lost", "0", not lost)


def memory(front_ends: Sequence[FrontEnd]) -> list[Line]:
    """Return what processes hold: front ends, replicas, and all of Ray beside them."""
    rows = list(_processes())
    replicas = [rss for _, rss, words in rows if "ServeReplica:hasse" in words]
    pids = {one.process.pid for one in front_ends}
    own = [rss for pid, rss, _ in rows if pid in pids]
    pattern = re.compile(r"ray::(?!ServeReplica:hasse)|raylet|gcs_server|/ray/")
    rest = sum(rss for _, rss, words in rows if pattern.search(words))
    return [
        Line(f"memory of each of {len(own)} front ends", _range(own)),
        Line(f"of each of {len(replicas)} replicas", _range(replicas)),
        Line("of Ray beside them, all nodes", f"{rest:,.0f} MB"),
    ]


def _processes() -> Iterator[tuple[int, float, str]]:
    """Yield the id, the resident megabytes and the command line of each process."""
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            found = re.search(r"VmRSS:\s+(\d+)", (place / "status").read_text())
            if found is not None:
                yield int(place.name), int(found[1]) / 1024, words


def _range(megabytes: Sequence[float]) -> str:
    return f"{min(megabytes):,.0f} to {max(megabytes):,.0f} MB" if megabytes else "none"


def expected(local: Index, points: Points, captions: Sequence[str]) -> dict[str, list[int]]:
    """Return the ids that one process finds for each caption."""
    found = local.search_batch(Query("image", 10), points)
    return {caption: one.ids.tolist() for caption, one in zip(captions, found, strict=True)}


def new_database(server: str, name: str) -> str:
    """Make an empty database; return its address."""
    url = sql.make_url(server)
    engine = sql.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sql.NullPool)
    with engine.connect() as connection:
        connection.exec_driver_sql(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        connection.exec_driver_sql(f"CREATE DATABASE {name}")
    return url.set(database=name).render_as_string(hide_password=False)


def cut_off(server: str, name: str, seconds: float) -> None:
    """Let a database take no connections for a while, as if it had stopped."""
    engine = sql.create_engine(server, isolation_level="AUTOCOMMIT", poolclass=sql.NullPool)
    others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = :name"
    with engine.connect() as connection:
        connection.exec_driver_sql(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        connection.execute(sql.text(others), {"name": name})
        time.sleep(seconds)
        connection.exec_driver_sql(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")


def command(nodes: Nodes, *words: str) -> str:
    """Run `hasse cluster`; return what it printed."""
    program = [sys.executable, "-m", "hasse", "cluster", *words]
    done = subprocess.run(
        program, env=nodes.environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def full_strength(nodes: Nodes, index: Path, replicas: int, limit: float = 120) -> float:
    """Wait until all replicas of all shards run; return the seconds that took."""
    started = time.monotonic()
    while time.monotonic() < started + limit:
        place = ("--library", str(index), "--address", nodes.address)
        said = command(nodes, "status", *place, "--json")
        if all(one["running"] >= replicas for one in json.loads(said)):
            break
        time.sleep(1)
    return time.monotonic() - started
