"""`hasse serve`: serves an index over HTTP, with the page."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from hasse.service.cli.terminal.configuration import print_settings, warn_of_misspelt_variables
from hasse.service.cli.terminal.options import LibraryOptions

Host = Annotated[
    str | None,
    typer.Option(
        show_default="127.0.0.1", help="Address to listen on; use 0.0.0.0 to accept other machines."
    ),
]
Port = Annotated[
    int | None,
    typer.Option(
        "--port",
        "-p",
        min=0,
        max=65535,
        show_default="8000",
        help="Port to listen on; use 0 for any free one.",
    ),
]
Processes = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=256,
        show_default="1",
        help="Worker processes; a single one uses little more than one core.",
    ),
]
SettingPairs = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="Set any other setting, as in --set in_flight=32."
    ),
]


def serve(
    *,
    library: LibraryOptions,
    host: Host = None,
    port: Port = None,
    processes: Processes = None,
    pairs: SettingPairs = None,
    settings: Annotated[
        bool, typer.Option("--settings", help="List every setting with its value, and exit.")
    ] = False,
) -> None:
    """Serve the library and follow its folders: the page at /, the API documented at /docs.

    Give any setting here, or as an environment variable: HASSE_ and the name in capitals. Ctrl-C
    or SIGTERM finishes the requests in flight, then stops. SIGHUP takes changed keys and limits.

    \b
    Examples:
      hasse serve
      hasse serve --host 0.0.0.0 --port 80 --set k_maximum=100
      hasse serve --settings
    """
    read_settings = partial(
        library.settings, pairs=pairs or (), host=host, port=port, processes=processes
    )
    chosen = read_settings()
    warn_of_misspelt_variables()
    if settings:
        print_settings(chosen)
        return
    from hasse.service.runtime.following import following
    from hasse.service.runtime.workers import serve as run

    with following(chosen):
        run(chosen, typer.echo, read_settings)
