"""`hasse serve`: serves an index over HTTP, with the page."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING, Annotated

import typer

from hasse.service.cli.terminal.configuration import print_settings, warn_of_misspelt_variables
from hasse.service.cli.terminal.options import LibraryOptions

if TYPE_CHECKING:
    from hasse.service.settings import Settings

_RUN = "this-run"  # name of the key, in log lines

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
Browser = Annotated[
    bool, typer.Option("--browser/--no-browser", help="Open a browser, where there is a screen.")
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
    browser: Browser = True,
    pairs: SettingPairs = None,
    settings: Annotated[
        bool, typer.Option("--settings", help="List every setting with its value, and exit.")
    ] = False,
) -> None:
    """Serve the library and follow its folders: the page at /, the API documented at /docs.

    On this machine alone, and without other keys, it prints an address with a key for this run:
    the browser that opens it may add, caption and remove pictures.

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

    announce: Callable[[str], None] = typer.echo
    if is_private(chosen):
        from hasse.service.http.access import fingerprint, new_key

        key = new_key()
        read_settings = partial(read_settings, write_keys=f"{_RUN}:{fingerprint(key)}")
        chosen = read_settings()
        announce = partial(_announce_key, key, browser=browser)
    with following(chosen):
        run(chosen, announce, read_settings)


def is_private(settings: Settings) -> bool:
    """Return whether only this machine reaches the service, and no setting says who may write."""
    with suppress(ValueError):
        is_here = settings.host == "localhost" or ip_address(settings.host).is_loopback
        has_keys = settings.writes_need_key or settings.takes_writes
        return is_here and not has_keys and not settings.root_path and not settings.trusted_proxies
    return False


def _announce_key(key: str, message: str, *, browser: bool) -> None:
    """Print the startup message and the address with a key, and open that in a browser."""
    url = f"{message.rpartition('Serving')[2].split()[0]}/#key={key}"
    typer.echo(f"{message}\nYours       {url} lets the browser that opens it change the library.")
    has_screen = sys.platform != "linux" or os.environ.keys() & {"DISPLAY", "WAYLAND_DISPLAY"}
    if browser and has_screen and sys.stdout.isatty():
        typer.launch(url)
