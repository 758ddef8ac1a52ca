"""Options of a command that are the fields of a pydantic model, or of a dataclass."""

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
        model: its fields have a description, which is the help of the option.
        without: fields that are no options.
        flags: names of options, where they are not `--field-name`.
    """

    model: type[BaseModel]
    without: Collection[str] = ()
    flags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def with_options(command: Callable[..., Result]) -> Callable[..., Result]:
    """Give a command an option for each field of its parameters that stand for several.

    These are dataclasses, whose fields have the hints of options, and dicts marked by `OptionsOf`.
    """
    parameters: list[inspect.Parameter] = []
    groups: dict[str, tuple[Callable[..., Any], list[str]]] = {}
    hints = get_type_hints(command, include_extras=True)
    for name, parameter in inspect.signature(command).parameters.items():
        if not (own := _options(hints[name])):
            parameters.append(parameter.replace(annotation=hints[name]))
            continue
        make = hints[name] if is_dataclass(hints[name]) else dict
        groups[name] = make, [one.name for one in own]
        parameters += own

    def run(**given: Any) -> Result:
        made = {
            name: make(**{one: given.pop(one) for one in names})
            for name, (make, names) in groups.items()
        }
        return command(**given, **made)

    functools.update_wrapper(run, command)
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def _options(hint: Any) -> list[inspect.Parameter]:
    """Return the parameters that a hint stands for; none where it is that of one option."""
    own: list[tuple[str, Any, Any]] = []
    if is_dataclass(hint):
        hints = get_type_hints(hint, include_extras=True)
        own = [(one.name, one.default, hints[one.name]) for one in fields(hint)]
    for of in getattr(hint, "__metadata__", ()):
        if isinstance(of, OptionsOf):
            chosen = of.model.model_fields.items()
            own = [
                (name, one.default, Annotated[_type(one), _option(one, of.flags.get(name, ()))])
                for name, one in chosen
                if name not in of.without
            ]
    keyword = inspect.Parameter.KEYWORD_ONLY
    return [
        inspect.Parameter(name, keyword, default=default, annotation=annotation)
        for name, default, annotation in own
    ]


def _type(given: FieldInfo) -> Any:
    """Return the type of an option: a literal, or a plain type; both with None where allowed."""
    kind: Any = given.annotation if get_origin(given.annotation) is Literal else kind_of(given)
    return kind | None if NoneType in get_args(given.annotation) else kind


def _option(given: FieldInfo, flags: tuple[str, ...]) -> Any:
    bounds: dict[str, Any] = {}
    for each in given.metadata:
        bounds |= {"min": each.ge} if hasattr(each, "ge") else {}
        bounds |= {"max": each.le} if hasattr(each, "le") else {}
    metavar = "DATE" if is_instant(given) else None
    return typer.Option(*flags, help=given.description, metavar=metavar, **bounds)
