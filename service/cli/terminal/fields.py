"""Makes the options of a command from the fields of a pydantic model or a dataclass."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from types import NoneType
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from hasse.service.schemas import is_instant, kind_of

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class OptionsOf:
    """Marks a parameter of a command that is a dict with a value for each field of a model.

    Attributes:
        model: the description of each field is the help of its option.
        without: fields that get no option.
        flags: names of options that differ from `--field-name`.
    """

    model: type[BaseModel]
    without: Collection[str] = ()
    flags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def with_options(command: Callable[..., Result]) -> Callable[..., Result]:
    """Replace each parameter that groups options by one parameter for each option.

    A dataclass whose fields have the hints of options is such a group, and a dict marked by
    `OptionsOf`.
    """
    parameters: list[inspect.Parameter] = []
    groups: dict[str, tuple[Callable[..., Any], list[str]]] = {}
    hints = get_type_hints(command, include_extras=True)
    for name, parameter in inspect.signature(command).parameters.items():
        if not (options := _grouped_options(hints[name])):
            parameters.append(parameter.replace(annotation=hints[name]))
            continue
        make = hints[name] if is_dataclass(hints[name]) else dict
        groups[name] = make, [option.name for option in options]
        parameters += options

    def run(**values: Any) -> Result:
        grouped = {
            name: make(**{option: values.pop(option) for option in options})
            for name, (make, options) in groups.items()
        }
        return command(**values, **grouped)

    functools.update_wrapper(run, command)
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _grouped_options(hint: Any) -> list[inspect.Parameter]:
    """Return the options that a hint groups; none for the hint of a single option."""
    options: list[tuple[str, Any, Any]] = []
    if is_dataclass(hint):
        hints = get_type_hints(hint, include_extras=True)
        options = [(part.name, part.default, hints[part.name]) for part in fields(hint)]
    for mark in getattr(hint, "__metadata__", ()):
        if isinstance(mark, OptionsOf):
            options = [
                (
                    name,
                    info.default,
                    Annotated[_type(info), _option(info, mark.flags.get(name, ()))],
                )
                for name, info in mark.model.model_fields.items()
                if name not in mark.without
            ]
    keyword = inspect.Parameter.KEYWORD_ONLY
    return [
        inspect.Parameter(name, keyword, default=default, annotation=annotation)
        for name, default, annotation in options
    ]


def _type(info: FieldInfo) -> Any:
    """Return the type of an option: a literal or a plain type, with None where the field has it."""
    kind: Any = info.annotation if get_origin(info.annotation) is Literal else kind_of(info)
    return kind | None if NoneType in get_args(info.annotation) else kind


def _option(info: FieldInfo, flags: tuple[str, ...]) -> Any:
    bounds: dict[str, Any] = {}
    for constraint in info.metadata:
        bounds |= {"min": constraint.ge} if hasattr(constraint, "ge") else {}
        bounds |= {"max": constraint.le} if hasattr(constraint, "le") else {}
    # The help of a field names its values.
    is_choice = get_origin(info.annotation) is Literal
    metavar = "DATE" if is_instant(info) else "NAME" if is_choice else None
    return typer.Option(*flags, help=info.description, metavar=metavar, **bounds)
