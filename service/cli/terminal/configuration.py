"""Reads the settings of a command: from its options, environment variables and defaults."""

from __future__ import annotations

import os
from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from hasse.service.cli.terminal.errors import CommandError
from hasse.service.cli.terminal.progress import tell
from hasse.service.cli.terminal.table import print_table

if TYPE_CHECKING:
    from hasse.models.images.limits import PictureLimits
    from hasse.service.settings import Settings

# Similarity to a setting, at most 1, from which a name counts as misspelt. HASSE_PORT_8000_TCP
# and the like, which Kubernetes sets for a service called hasse, are below it.
_MISSPELT_SIMILARITY = 0.85


def configure(pairs: Sequence[str] = (), **options: Any) -> Settings:
    """Return the settings; for an option that is None, the environment decides.

    `pairs` are texts `name=value`, for settings without an option of their own.

    Raises:
        CommandError: a value is not allowed; the message names the setting and the reason.
    """
    from pydantic import ValidationError

    from hasse.service.errors import reason_of
    from hasse.service.settings import Settings

    chosen: dict[str, Any] = dict(parse_pairs(pairs))
    unknown = sorted(set(chosen) - set(Settings.model_fields))
    if unknown:
        raise CommandError(
            f"there is no setting '{unknown[0]}': 'hasse serve --settings' lists them"
        )
    chosen |= {name: value for name, value in options.items() if value is not None}
    file = chosen.get("settings_file", os.environ.get("HASSE_SETTINGS_FILE"))
    if file and not os.access(file, os.R_OK):
        raise CommandError(f"HASSE_SETTINGS_FILE: {file} cannot be read")
    try:
        return Settings(**{"_env_file": file or None, "_env_file_encoding": "utf-8-sig", **chosen})
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0]).lower().removeprefix("hasse_")
        source = f"--set {name}" if name in chosen else f"HASSE_{name.upper()}"
        # A key given by mistake instead of its SHA-256 must not end up in a log.
        value = "" if "keys" in name else f" (it is {first['input']!r})"
        raise CommandError(f"{source}: {reason_of(first)}{value}") from None


def picture_limits() -> PictureLimits:
    """Return the size limits of pictures, from HASSE_PICTURE_PIXELS."""
    return configure().picture_limits


def warn_of_misspelt_variables() -> None:
    """Print a warning for each environment variable that looks like a misspelt setting."""
    from hasse.service.settings import Settings

    known = [f"HASSE_{name.upper()}" for name in Settings.model_fields]
    for name in sorted(set(os.environ) - set(known)):
        for near in get_close_matches(name.upper(), known, n=1, cutoff=_MISSPELT_SIMILARITY):
            if near != name.upper():
                tell(f"warning: {name} is not a setting: did you mean {near}?")


def parse_pairs(pairs: Sequence[str]) -> dict[str, str]:
    """Read `NAME=VALUE` options; `-` and `_` are the same in names.

    Raises:
        CommandError: an option has no value.
    """
    values: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise CommandError(f"--set {pair}: write it as --set NAME=VALUE")
        values[name.strip().lower().replace("-", "_")] = value
    return values


def print_settings(settings: Settings) -> None:
    """Print every setting with its value and its purpose."""
    from hasse.service.settings import descriptions

    rows = []
    for name, purpose in descriptions().items():
        value = getattr(settings, name)
        rows.append((f"HASSE_{name.upper()}", "" if value is None else str(value), purpose))
    print_table(("setting", "value", "what it is for"), rows)
