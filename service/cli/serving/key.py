"""`hasse key`: a key for those who may write to a service, or read from it."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from service.cli.terminal.errors import Mistake

_NAME = re.compile(r"[A-Za-z0-9._-]{1,32}")


def key(
    *,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Whose key it is; the log shows this name.")
    ],
) -> None:
    """Make a key for a service, and the line that lets the service know it.

    The key is shown once, on standard output, and kept nowhere: the service knows only its
    SHA-256. Give the key to whom it is for, and the line to the service, in HASSE_WRITE_KEYS or
    HASSE_READ_KEYS; several are separated by commas.

    \b
    [bold]Examples[/bold]
      hasse key alice
    """
    from service.http.access import fingerprint, new_key

    if not _NAME.fullmatch(name):
        raise Mistake("a name has up to 32 letters, digits, dots, dashes or underscores")
    made = new_key()
    typer.echo(made)
    typer.echo(f"for the service: HASSE_WRITE_KEYS={name}:{fingerprint(made)}", err=True)
