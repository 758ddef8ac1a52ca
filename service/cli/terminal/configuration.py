"""Settings from the command line over those of the environment, over the defaults."""

from __future__ import annotations

import os
from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from service.cli.terminal.errors import Mistake
from service.cli.terminal.progress import tell
from service.cli.terminal.table import print_table

if TYPE_CHECKING:
    from service.settings import Settings

_NEAR = 0.85  # of 1; Kubernetes sets HASSE_PORT_8000_TCP and the like where a service is so named


def configure(more: Sequence[str] = (), **given: Any) -> Settings:
    """Return the settings; options that were not given (None) leave theirs to the environment.

    `more` are `name=value` pairs for those that have no option of their own.

    Raises:
        Mistake: a value is not allowed; the message names the setting and says why.
    """
    from pydantic import ValidationError

    from service.errors import reason_of
    from service.settings import Settings

    chosen: dict[str, Any] = dict(pairs(more))
    unknown = sorted(set(chosen) - set(Settings.model_fields))
    if unknown:
        raise Mistake(f"there is no setting '{unknown[0]}': 'hasse serve --settings' lists them")
    chosen |= {name: value for name, value in given.items() if value is not None}
    try:
        return Settings(**chosen)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        source = f"--set {name}" if name in chosen else f"HASSE_{name.upper()}"
        # Who writes down a key and not its SHA-256 does not want it in a log too.
        value = "" if name.endswith("_keys") else f" (it is {first['input']!r})"
        raise Mistake(f"{source}: {reason_of(first)}{value}") from None


def tell_misspelt() -> None:
    """Name the variables that are nearly settings: a key misspelt keeps nobody out."""
    from service.settings import Settings

    known = [f"HASSE_{name.upper()}" for name in Settings.model_fields]
    for name in sorted(set(os.environ) - set(known)):
        for near in get_close_matches(name.upper(), known, n=1, cutoff=_NEAR):
            if near != name.upper():
                tell(f"warning: {name} is no setting: should it be {near}?")


def pairs(given: Sequence[str]) -> dict[str, str]:
    """Read `NAME=VALUE` options; `-` and `_` are one in names.

    Raises:
        Mistake: an option has no value.
    """
    found: dict[str, str] = {}
    for pair in given:
        name, equals, value = pair.partition("=")
        if not equals:
            raise Mistake(f"--set {pair}: write it as --set NAME=VALUE")
        found[name.strip().lower().replace("-", "_")] = value
    return found


def describe(settings: Settings) -> None:
    """Print every setting with its value and what it is for."""
    rows = [
        (f"HASSE_{name.upper()}", _shown(getattr(settings, name)), field.description or "")
        for name, field in type(settings).model_fields.items()
    ]
    print_table(("setting", "value", "what it is for"), rows)


def _shown(value: object) -> str:
    return "" if value is None else str(value)
