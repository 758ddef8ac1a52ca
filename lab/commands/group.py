"""Group of commands that need torch, an extra."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

from hasse.models.errors import pip_install
from hasse.service.cli.terminal.errors import CommandError

_PACKAGES = frozenset({"torch", "torchvision"})


class NeedsTorch(TyperGroup):
    """A group that says what to install where a command misses torch."""

    def invoke(self, ctx: Any) -> Any:
        """Run the chosen command; raises CommandError if torch or torchvision is missing."""
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as error:
            if error.name not in _PACKAGES:
                raise
            raise CommandError(
                f"'{ctx.command_path}' makes and measures models with {error.name}, which is not "
                f"installed: {pip_install('lab')}"
            ) from None
