"""`hasse study`: the commands of `studies/`, imported when they are called."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from hasse.service.cli.terminal.errors import CommandError
from hasse.service.cli.terminal.help_text import Commands, LazyCommand, LazyGroup

_PACKAGE = "hasse.studies"


def study_commands() -> Mapping[str, str]:
    """Return the `module:attribute` of each command of `studies/`; none without that folder."""
    if find_spec(_PACKAGE) is None:
        return {}
    commands: Mapping[str, str] = import_module(_PACKAGE).COMMANDS
    return commands


class StudyGroup(LazyGroup):
    """The commands in the table of `studies/`. The product itself imports no study."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse options; raises CommandError where no study is installed."""
        if not study_commands():
            raise CommandError(
                "the studies are not installed: they are in studies/ of a clone of the repository; "
                "run 'pip install -e .' there"
            )
        return super().parse_args(ctx, args)

    def table(self) -> Mapping[str, LazyCommand]:
        """Return the commands of the studies."""
        return {name: LazyCommand(path) for name, path in study_commands().items()}


study = Commands(
    cls=StudyGroup,
    help="""Reproduce the papers, and make the built-in models.

    docs/papers.md shows what each command measures.
    """,
)
