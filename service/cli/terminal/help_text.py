"""Groups of commands whose help texts are their docstrings, as plain text of 80 columns."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import typer
from typer.core import TyperGroup

from hasse.service.cli.terminal.command import Command
from hasse.service.cli.terminal.fields import with_groups

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

    def add(
        self, function: Function, cls: type[Command] = Command, *, hidden: bool = False
    ) -> Function:
        """Add a function as a command of the same name; lists show its first sentence."""
        text = function.__doc__ or ""
        first = " ".join(re.split(r"(?<=\.)\s", text, maxsplit=1)[0].split())
        name = function.__name__.strip("_")
        add = self.command(name, help=text, short_help=first, cls=cls, hidden=hidden)
        add(with_groups(function))
        return function
