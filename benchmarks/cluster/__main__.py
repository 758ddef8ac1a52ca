"""Serve a collection from several nodes on this machine, and let what may fail fail.

    python -m benchmarks.cluster data/cluster --database postgresql+psycopg://user@host/postgres

Prints the table of docs/cluster.md. The server gets a database for it. With --redis, the head comes
back after it was killed; without, the last line says how long the others go on.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.cluster import trial
from benchmarks.cluster.nodes import FrontEnd, Nodes
from benchmarks.reliability.collection import captions, collection
from benchmarks.report import Line, finish, machine, parser_of
from hasse.index.store import Index
from hasse.index.types import Points
from hasse.models.checkpoints import checkpoint, named_models
from hasse.service.cluster.connection import connect
from hasse.service.cluster.deployment import Layout, RayShards
from hasse.service.cluster.index import ClusterIndex

NAME = "hasse_benchmark_cluster"
SHARDS, REPLICAS, NODES = 2, 2, 3
FRONT_ENDS = "127.0.0.2"  # the address of the node of all front ends


def options() -> argparse.Namespace:
    """Read the command line."""
    parser = parser_of(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--database", required=True, help="a PostgreSQL server")
    parser.add_argument("--redis", default="", help="HOST:PORT, where the head keeps what it knows")
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--answers", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=60.0, help="of load while nodes die")
    parser.add_argument("--additions", type=int, default=1000)
    parser.add_argument("--deletions", type=int, default=200)
    return parser.parse_args()


def main() -> None:
    """Run all trials and print their table."""
    asked, at = options(), machine()
    place = (asked.folder / f"{time.time_ns()}").resolve()
    index = collection(
        place,
        asked.rows,
        catalog=trial.new_database(asked.database, NAME),
        rows_per_segment=asked.rows // (2 * SHARDS),
    )
    texts = list(dict.fromkeys(captions()))[: asked.answers]
    model = checkpoint.load(named_models.pretrained()).model
    points = model.encode_captions(texts)
    with (
        Nodes(NODES, cpus=SHARDS, redis=asked.redis) as nodes,
        Index.open(index, threads=1) as local,
    ):
        lines = list(trials(asked, index, nodes, local, texts, points))
    finish(
        f"{asked.rows:,} images of {model.config.dimension} coordinates, {SHARDS} shards of "
        f"{REPLICAS} replicas, {NODES + 2} nodes on one machine, PostgreSQL beside them",
        lines,
        at,
    )


def trials(
    asked: argparse.Namespace,
    index: Path,
    nodes: Nodes,
    local: Index,
    texts: list[str],
    points: Points,
) -> Iterator[Line]:
    """Yield one line after another, as they are measured."""
    os.environ |= nodes.environment
    nodes.add(0, FRONT_ENDS)
    trial.command(nodes, "plan", "--library", str(index), "--shards", str(SHARDS))
    local.refresh()
    expected = trial.expected(local, points[:200], texts[:200])
    started = time.monotonic()
    serve = ("--shards", str(SHARDS), "--set", "open_writes=true")
    first = FrontEnd(nodes, index, *serve, "--replicas", str(REPLICAS), at=FRONT_ENDS)
    yield Line("start-up, shards and front end", f"{time.monotonic() - started:.0f} s")
    started = time.monotonic()
    second = FrontEnd(nodes, index, *serve, at=FRONT_ENDS)
    yield Line("start-up of another front end", f"{time.monotonic() - started:.0f} s")
    ray = connect(nodes.address)
    with ClusterIndex(
        index, RayShards(ray, Layout(index, SHARDS, REPLICAS), 5.0), SHARDS
    ) as cluster:
        yield from trial.answers_and_overhead(local, cluster, points, len(texts))
    yield from trial.memory([first, second])
    ray.shutdown()
    urls = [first.url, second.url]
    calm = trial.under_load(urls, expected, asked.seconds / 4)
    yield calm.line(f"{trial.CLIENTS} clients, nothing fails", len(calm.seconds))
    every = asked.seconds / 6
    dying = trial.under_load(urls, expected, asked.seconds, trial.killing(nodes, every))
    what = f"a node is killed, a new one joins, {every:.0f} s later the next is killed, and so on"
    yield dying.line(what, len(dying.seconds) // 1000, "1 in 1,000 failed")
    yield Line(
        "full strength after that", f"{trial.full_strength(nodes, index, REPLICAS):.0f} s later"
    )
    if asked.redis:
        yield from trial.head_killed(nodes, index, urls, expected, REPLICAS)
    line, ids = trial.writes(first.url, second.url, asked.additions, asked.deletions)
    yield line
    # Drawn noise is no hit of a caption: the answers stay.
    killed = trial.under_load(urls, expected, 10, trial.after(3, first.process.kill))
    yield killed.line("a front end is killed")
    yield trial.still_there(second.url, ids)
    cut = trial.under_load(
        [second.url],
        expected,
        20,
        trial.after(2, lambda: trial.cut_off(asked.database, NAME, 10)),
    )
    yield Line("PostgreSQL is cut off for 10 s", cut.words, "503", not cut.wrong)
    yield trial.under_load([second.url], expected, 5).line("after that")
    nodes.numbers += [nodes.add() for _ in range(REPLICAS)]  # room for four more replicas
    trial.command(nodes, "plan", "--library", str(index), "--shards", "4")
    made: list[FrontEnd] = []

    def update() -> None:
        made.append(FrontEnd(nodes, index, "--shards", "4", "--replicas", "1", at=FRONT_ENDS))

    yield trial.under_load([second.url], expected, 60, trial.after(1, update)).line(
        "4 shards are deployed beside 2"
    )
    yield trial.under_load([made[0].url], expected, 5).line("the front end of the 4 shards")
    if not asked.redis:
        yield trial.head_gone(nodes, made[0].url, expected)
    for front_end in (first, second, *made):
        front_end.close()


if __name__ == "__main__":
    main()
