"""Options of a command that are the fields of a pydantic model, or of a dataclass."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields, is_dataclass
from types import NoneType
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from hasse.service.schemas import is_instant, kind_of

Result = TypeVar("Result")


def options_from(
    model: type[BaseModel],
    *,
    without: Collection[str] = (),
    flags: Mapping[str, tuple[str, ...]] | None = None,
) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Give a command an option for each field of a model, in the place of its parameter `fields`.

    The command gets the values of all these options, by name, as `fields`.

    Args:
        model: its fields have a description, which is the help of the option.
        without: fields that are no options.
        flags: names of options, where they are not `--field-name`.
    """
    chosen = {name: each for name, each in model.model_fields.items() if name not in without}

    def decorate(command: Callable[..., Result]) -> Callable[..., Result]:
        hints = get_type_hints(command, include_extras=True)
        derived = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=field.default,
                annotation=Annotated[_type(field), _option(field, (flags or {}).get(name, ()))],
            )
            for name, field in chosen.items()
        ]
        parameters: list[inspect.Parameter] = []
        for name, parameter in inspect.signature(command).parameters.items():
            own = parameter.replace(annotation=hints[name])
            parameters += derived if name == "fields" else [own]

        def run(**given: Any) -> Result:
            values = {name: given.pop(name) for name in chosen}
            return command(**given, fields=values)

        return _signed(command, run, parameters)

    return decorate


def with_groups(command: Callable[..., Result]) -> Callable[..., Result]:
    """Give a command an option for each field of its parameters that are dataclasses.

    The hints of their fields are those of options, as in a command.
    """
    hints = get_type_hints(command, include_extras=True)
    parameters: list[inspect.Parameter] = []
    groups: dict[str, Any] = {}
    for name, parameter in inspect.signature(command).parameters.items():
        if not is_dataclass(group := hints[name]):
            parameters.append(parameter.replace(annotation=group))
            continue
        groups[name] = group
        own = get_type_hints(group, include_extras=True)
        parameters += [
            parameter.replace(name=each.name, default=each.default, annotation=own[each.name])
            for each in fields(group)
        ]

    def run(**given: Any) -> Result:
        made = {
            name: group(**{each.name: given.pop(each.name) for each in fields(group)})
            for name, group in groups.items()
        }
        return command(**given, **made)

    return _signed(command, run, parameters)


def _signed(
    command: Callable[..., Result],
    run: Callable[..., Result],
    parameters: list[inspect.Parameter],
) -> Callable[..., Result]:
    """Return `run` in the place of a command, with other parameters."""
    functools.update_wrapper(run, command)
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def _type(field: FieldInfo) -> Any:
    """Return the type of an option: a literal, or a plain type; both with None where allowed."""
    kind: Any = field.annotation if get_origin(field.annotation) is Literal else kind_of(field)
    return kind | None if NoneType in get_args(field.annotation) else kind


def _option(field: FieldInfo, flags: tuple[str, ...]) -> Any:
    bounds: dict[str, Any] = {}
    for each in field.metadata:
        bounds |= {"min": each.ge} if hasattr(each, "ge") else {}
        bounds |= {"max": each.le} if hasattr(each, "le") else {}
    metavar = "DATE" if is_instant(field) else None
    return typer.Option(*flags, help=field.description, metavar=metavar, **bounds)
