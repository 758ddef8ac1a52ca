"""Help texts: paragraphs fill the terminal's width, examples stay as they are."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import typer

Command = TypeVar("Command", bound=Callable[..., Any])

AS_IT_IS = "\b\n"  # before a paragraph whose lines are not to be joined


def advice(text: str) -> str:
    """Join the lines of each paragraph, except one that begins with a line of `\\b`."""
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(
        paragraph.removeprefix(AS_IT_IS)
        if paragraph.startswith(AS_IT_IS)
        else " ".join(paragraph.split())
        for paragraph in paragraphs
    )


class Commands(typer.Typer):
    """Commands whose docstrings are their help."""

    def add(self, command: Command) -> Command:
        """Make a function a command of its own name."""
        self.command(help=advice(command.__doc__ or ""))(command)
        return command
