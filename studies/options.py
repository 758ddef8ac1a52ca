"""Options of a study by the names of the fields of its configuration: `--set NAME=VALUE`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

from hasse.service.cli.terminal.configuration import parse_pairs
from hasse.service.cli.terminal.errors import CommandError

Config = TypeVar("Config")
Options = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="An option of the training, such as --set epochs=3; repeat it for more. A wrong name "
        "lists them.",
    ),
]


def with_options(config: Config, given: Sequence[str] | None) -> Config:
    """Return a configuration, a dataclass that may hold others, with some of its fields replaced.

    Raises:
        CommandError: there is no such field, or it does not take that value.
    """
    options = parse_pairs(given or ())
    known = _types(config)
    if unknown := next((name for name in options if name not in known), None):
        raise CommandError(f"there is no option '{unknown}'; there are: {', '.join(sorted(known))}")
    values = {name: _value(name, known[name], text) for name, text in options.items()}
    try:
        changed: Config = _replaced(config, values)
    except ValueError as error:
        raise CommandError(f"these options do not go together: {error}") from None
    return changed


def _value(name: str, kind: Any, text: str) -> Any:
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(kind).validate_python(text)
    except ValidationError as error:
        reason = error.errors()[0]["msg"].lower()
        raise CommandError(f"{name} cannot be '{text}': {reason}") from None


def _types(config: Any) -> dict[str, Any]:
    """Return the types of all fields by name, those of inner configurations among them."""
    found: dict[str, Any] = {}
    for name, kind in get_type_hints(type(config)).items():
        found |= _types(getattr(config, name)) if is_dataclass(kind) else {name: kind}
    return found


def _replaced(config: Any, values: Mapping[str, Any]) -> Any:
    changes = {}
    for one in fields(config):
        inner = getattr(config, one.name)
        if is_dataclass(inner):
            changes[one.name] = _replaced(inner, values)
        elif one.name in values:
            changes[one.name] = values[one.name]
    return replace(config, **changes)
