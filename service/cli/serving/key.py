"""`hasse lab key`: makes an access key for a client of a service."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from hasse.service.cli.terminal.errors import CommandError

_NAME = re.compile(r"[A-Za-z0-9._-]{1,32}")


def key(
    *,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the key's owner, as shown in the log.")
    ],
) -> None:
    """Make a key for a client, and the setting that accepts it.

    The key is printed once, on standard output, and stored nowhere: the service only needs its
    SHA-256. Give the key to the client, and the setting to the service, as HASSE_WRITE_KEYS or
    HASSE_READ_KEYS, separated by commas, or as lines of the file that HASSE_KEYS_FILE names.

    \b
    Examples:
      hasse lab key alice
    """
    from hasse.service.http.access import fingerprint, new_key

    if not _NAME.fullmatch(name):
        raise CommandError("use up to 32 letters, digits, dots, dashes or underscores for the name")
    access_key = new_key()
    typer.echo(access_key)
    entry = f"{name}:{fingerprint(access_key)}"
    typer.echo(f"for the service: HASSE_WRITE_KEYS={entry}", err=True)
    typer.echo(f"or a line of HASSE_KEYS_FILE: write {entry}", err=True)
