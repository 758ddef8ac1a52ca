"""Help texts from docstrings: paragraphs fill the terminal's width, examples stay as they are."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, TypeVar

import typer

Command = TypeVar("Command", bound=Callable[..., Any])


def join_lines(text: str) -> str:
    """Join the lines of each paragraph, except one that begins with a line of `\\b`."""
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(
        paragraph.removeprefix("\b\n")
        if paragraph.startswith("\b\n")
        else " ".join(paragraph.split())
        for paragraph in paragraphs
    )


class Commands(typer.Typer):
    """A group of commands whose docstrings are their help."""

    def add(self, command: Command, panel: str | None = None) -> Command:
        """Add a function as a command of the same name; lists show its first sentence."""
        help_text = join_lines(command.__doc__ or "")
        first = re.split(r"(?<=\.)\s", help_text, maxsplit=1)[0]
        self.command(help=help_text, short_help=first, rich_help_panel=panel)(command)
        return command
