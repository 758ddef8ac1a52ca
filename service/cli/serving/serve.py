"""`hasse serve`: an index behind HTTP, with the page."""

from __future__ import annotations

from typing import Annotated

import typer

from service.cli.terminal.configuration import configure, describe, tell_misspelt
from service.cli.terminal.options import ServiceDevice, ServiceIndex, ServiceModel

Host = Annotated[
    str | None,
    typer.Option(
        show_default="127.0.0.1", help="Address to listen on; 0.0.0.0 lets other machines in."
    ),
]
Port = Annotated[
    int | None,
    typer.Option(
        "--port", "-p", min=0, max=65535, show_default="8000", help="0 takes any free one."
    ),
]
Processes = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=256,
        show_default="1",
        help="Processes that share port and cores; one alone uses little more than one core.",
    ),
]
More = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="Any other setting, such as --set in_flight=32."
    ),
]


def serve(
    *,
    index: ServiceIndex = None,
    model: ServiceModel = None,
    host: Host = None,
    port: Port = None,
    processes: Processes = None,
    device: ServiceDevice = None,
    more: More = None,
    settings: Annotated[
        bool, typer.Option("--settings", help="List every setting with its value, and stop.")
    ] = False,
) -> None:
    """Serve an index: the page at /, the API described at /docs.

    Every setting can be given here, or in the environment as HASSE_ and its name in capitals;
    the command line wins. Ctrl-C or SIGTERM lets what is in flight finish.

    \b
    [bold]Examples[/bold]
      hasse serve --index data/mine-index
      hasse serve --index data/mine-index --host 0.0.0.0 --port 80 \\
          --set k_maximum=100
      hasse serve --index data/mine-index --processes 4
      HASSE_PORT=9000 hasse serve
      hasse serve --settings
    """
    chosen = configure(
        more or (),
        index=index,
        model=model,
        host=host,
        port=port,
        processes=processes,
        device=device,
    )
    tell_misspelt()
    if settings:
        describe(chosen)
        return
    from service.runtime.workers import serve as run

    run(chosen, typer.echo)
