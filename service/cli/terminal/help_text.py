"""Groups of commands. Their help is plain text, from the docstrings of the functions."""

from __future__ import annotations

import pkgutil
import re
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from hasse.service.cli.terminal.fields import with_options

Function = TypeVar("Function", bound=Callable[..., Any])


class Commands(typer.Typer):
    """A group of commands whose docstrings are their help."""

    def __init__(
        self,
        help: str = "",  # noqa: A002
        cls: type[TyperGroup] = TyperGroup,
        *,
        hidden: bool = False,
    ) -> None:
        super().__init__(
            cls=cls,
            help=help,
            hidden=hidden,
            no_args_is_help=True,
            add_completion=cls is not TyperGroup,
            rich_markup_mode=None,
            pretty_exceptions_enable=False,
            context_settings={"help_option_names": ["-h", "--help"]},
        )

    def add(self, function: Function, cls: type[TyperCommand] = TyperCommand) -> Function:
        """Add a function as a command of its name; a list shows the first sentence of its help."""
        text = function.__doc__ or ""
        first = " ".join(re.split(r"(?<=\.)\s", text, maxsplit=1)[0].split())
        name = function.__name__.strip("_")
        self.command(name, help=text, short_help=first, cls=cls)(with_options(function))
        return function


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """A command or a group that is not imported yet; `path` is `module:attribute`."""

    path: str
    cls: type[TyperCommand] = TyperCommand
    hidden: bool = False


class LazyGroup(TyperGroup):
    """A group that imports a command when it is called, or shown in a help text."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands: Any = dict.fromkeys(self.table())  # typer lists and suggests these names

    @abstractmethod
    def table(self) -> Mapping[str, LazyCommand]:
        """Return the commands by name, in the order of the help text."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import a command; None for an unknown name."""
        lazy = self.table().get(cmd_name)
        if lazy is None:
            return None
        imported = pkgutil.resolve_name(lazy.path)
        if isinstance(imported, typer.Typer):
            command: Any = get_group(imported)
        else:
            single = Commands()
            single.add(imported, lazy.cls)
            command = get_command(single)
        command.name, command.hidden = cmd_name, lazy.hidden or command.hidden
        return command
