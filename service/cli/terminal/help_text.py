"""Groups of commands whose help texts are their docstrings, as plain text of 80 columns."""

from __future__ import annotations

import pkgutil
import re
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group

from hasse.service.cli.terminal.command import Command
from hasse.service.cli.terminal.fields import with_options

Function = TypeVar("Function", bound=Callable[..., Any])


class Commands(typer.Typer):
    """A group of commands whose docstrings are their help."""

    def __init__(
        self,
        help: str = "",  # noqa: A002
        cls: type[TyperGroup] = TyperGroup,
    ) -> None:
        super().__init__(
            cls=cls,
            help=help,
            no_args_is_help=True,
            add_completion=cls is not TyperGroup,
            rich_markup_mode=None,
            pretty_exceptions_enable=False,
            context_settings={"help_option_names": ["-h", "--help"]},
        )

    def add(self, function: Function, cls: type[Command] = Command) -> Function:
        """Add a function as a command of the same name; lists show its first sentence."""
        text = function.__doc__ or ""
        first = " ".join(re.split(r"(?<=\.)\s", text, maxsplit=1)[0].split())
        name = function.__name__.strip("_")
        self.command(name, help=text, short_help=first, cls=cls)(with_options(function))
        return function


@dataclass(frozen=True, slots=True)
class Listed:
    """A command of a `LazyGroup`, or a group: `module:attribute`, and how it is listed."""

    path: str
    cls: type[Command] = Command
    hidden: bool = False


class LazyGroup(TyperGroup):
    """A group whose commands are imported when they are called, or listed in a help text."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands: Any = dict.fromkeys(self.table())  # the names: they list and suggest

    @abstractmethod
    def table(self) -> Mapping[str, Listed]:
        """Return the commands by name, in the order in which they are listed."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Load a command."""
        listed = self.table().get(cmd_name)
        if listed is None:
            return None
        found = pkgutil.resolve_name(listed.path)
        if isinstance(found, typer.Typer):
            command: Any = get_group(found)
        else:
            single = Commands()
            single.add(found, listed.cls)
            command = get_command(single)
        command.name, command.hidden = cmd_name, listed.hidden
        return command
