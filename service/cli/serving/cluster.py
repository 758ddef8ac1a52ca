"""`hasse cluster`: serves an index from several machines."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from hasse.service.cli.serving.serve import Host, Port, SettingPairs
from hasse.service.cli.terminal.configuration import configure, warn_of_misspelt_variables
from hasse.service.cli.terminal.errors import resumable
from hasse.service.cli.terminal.help_text import Commands
from hasse.service.cli.terminal.options import Json, Library, LibraryModel, ServiceDevice
from hasse.service.cli.terminal.progress import tell
from hasse.service.cli.terminal.table import print_table
from hasse.service.plural import count

Address = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        show_default="the cluster of this machine",
        help="The head of the Ray cluster to join.",
    ),
]
Shards = Annotated[int, typer.Option(min=1, metavar="S", help="Parts that the index has.")]

cluster = Commands(
    help="""Serve an index from several machines, on Ray.

    Needs the extra 'cluster' on every machine, an index on storage that all of them share, and its
    catalog in PostgreSQL: docs/cluster.md says how.

    \b
    Examples:
      hasse cluster plan --library data/mine --shards 2
      hasse cluster serve --library data/mine --shards 2 --replicas 2
      hasse cluster serve --library data/mine --shards 2 --address head:6379
      hasse cluster status --library data/mine
      hasse cluster stop --library data/mine
    """
)


@cluster.add
def plan(*, shards: Shards, library: Library = None, as_json: Json = False) -> None:
    """Divide an index into shards of about as many rows, and show what each one needs.

    The plan is written into the catalog. It can be made again at any time: shards that serve
    follow it. Segments that are added later go to shards by their names until then.
    """
    from hasse.index.creation import open_catalog
    from hasse.index.shards import plan_shards, shard_sizes

    index = configure(library=library).index
    with closing(open_catalog(index)) as catalog:
        shard_plan = plan_shards(index, catalog, shards)
        sizes = shard_sizes(shard_plan, catalog.state().segments)
    if as_json:
        typer.echo(json.dumps([asdict(size) for size in sizes], indent=2))
        return
    rows = [
        (
            str(at),
            f"{size.rows['image']:,}",
            f"{size.rows['caption']:,}",
            str(size.segments),
            f"{size.resident / 1e6:,.1f}",
            f"{size.points / 1e6:,.1f}",
        )
        for at, size in enumerate(sizes)
    ]
    print_table(("shard", "images", "captions", "segments", "memory MB", "points MB"), rows)


@cluster.add
def serve(
    *,
    shards: Shards,
    library: Library = None,
    replicas: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="R", help="Deploy so many replicas of each shard, on nodes of their own."
        ),
    ] = None,
    address: Address = None,
    threads: Annotated[
        int, typer.Option(min=1, help="Processors that each replica reserves and searches with.")
    ] = 1,
    copies: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Copy segments to this folder of each node first."),
    ] = None,
    model: LibraryModel = None,
    host: Host = None,
    port: Port = None,
    device: ServiceDevice = None,
    pairs: SettingPairs = None,
) -> None:
    """Join a Ray cluster, deploy shards on it, and serve HTTP here until asked to stop.

    Without --address the cluster of this machine is joined, or started. With --replicas shards are
    deployed; leave it out for further front ends. Shards go on when a front end ends:
    'hasse cluster stop' ends them. Settings are those of 'hasse serve'.
    """
    options = {"model": model, "host": host, "port": port, "device": device}
    settings = configure(pairs or (), library=library, **options)
    warn_of_misspelt_variables()
    from hasse.index.creation import open_catalog
    from hasse.index.shards import require_plan
    from hasse.service.cluster import deployment
    from hasse.service.cluster.connection import ClusterError, connect, start_head
    from hasse.service.cluster.front_end import model_and_index, settings_of
    from hasse.service.core.engine import Engine
    from hasse.service.runtime.server import run
    from hasse.service.runtime.sockets import listen
    from hasse.service.telemetry import logs

    index = settings.index
    with closing(open_catalog(index)) as catalog:
        require_plan(index, catalog, shards)
    layout = deployment.Layout(index.resolve(), shards, replicas or 1, threads, copies)
    try:
        ray = connect(address)
    except ClusterError:
        if address is not None or replicas is None:
            raise
        start_head()
        ray = connect(address)
    if replicas is not None:
        tell(f"deploying {count(replicas, 'replica')} of {count(shards, 'shard')}")
        message = "the cluster may go on deploying; 'hasse cluster stop' ends that"
        with resumable(lambda: message):
            deployment.deploy(ray, layout)
    settings = settings_of(settings)
    client = deployment.RayShards(ray, layout, settings.deadline_seconds / 2)
    logs.configure(settings.log_format, settings.log_level)
    with listen(settings.host, settings.port) as listener:
        load = partial(model_and_index, client, shards)
        run(settings, listener, typer.echo, partial(Engine.open, load=load))


@cluster.add
def status(*, library: Library = None, address: Address = None, as_json: Json = False) -> None:
    """Show each shard of an index: its state, and how many of its replicas run."""
    from hasse.service.cluster import deployment
    from hasse.service.cluster.connection import connect

    index = configure(library=library).index
    states = deployment.status(connect(address), index)
    if as_json:
        typer.echo(json.dumps([asdict(shard) for shard in states], indent=2))
        return
    rows = [
        (
            f"{shard.shard} of {shard.shards}",
            shard.state.lower(),
            f"{shard.running} of {shard.replicas}",
            shard.message,
        )
        for shard in states
    ]
    print_table(("shard", "state", "replicas", "message"), rows)
    if not states:
        tell(f"no shard of {index} is deployed: 'hasse cluster serve' with --replicas does that")


@cluster.add
def stop(
    *,
    library: Library = None,
    shards: Annotated[
        int | None, typer.Option(min=1, metavar="S", help="Only the service of so many shards.")
    ] = None,
    address: Address = None,
) -> None:
    """End the shards of an index. Ray goes on: 'ray stop' ends it on a machine."""
    from hasse.service.cluster import deployment
    from hasse.service.cluster.connection import connect

    index = configure(library=library).index
    stopped = deployment.stop(connect(address), index, shards)
    typer.echo(f"{count(len(stopped), 'shard')} stopped")
