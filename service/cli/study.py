"""`hasse study`: the commands of `studies/`, loaded only when one of them is called."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from typer import Typer
from typer.core import TyperGroup
from typer.main import get_command, get_group

from hasse.service.cli.terminal.errors import CommandError
from hasse.service.cli.terminal.help_text import Commands

_PACKAGE = "hasse.studies"


def study_commands() -> Mapping[str, str]:
    """Return `module:attribute` of each study's command, by name; none without `studies/`."""
    if find_spec(_PACKAGE) is None:
        return {}
    commands: Mapping[str, str] = import_module(_PACKAGE).COMMANDS
    return commands


class StudyGroup(TyperGroup):
    """Commands found in the table of `studies/`. The product itself imports no study."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuse to go on where no study is installed."""
        if not study_commands():
            raise CommandError(
                "the studies are not installed: they are in studies/ of a clone of the repository; "
                "run 'pip install -e .' there"
            )
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names in the order of the table."""
        return list(study_commands())

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Load a command."""
        path = study_commands().get(cmd_name)
        if path is None:
            return None
        found = pkgutil.resolve_name(path)
        if isinstance(found, Typer):
            group = get_group(found)
            group.name = cmd_name
            return group
        single = Commands()
        single.add(found)
        command = get_command(single)
        command.name = cmd_name
        return command


study = Commands(
    cls=StudyGroup,
    help="""Reproduce the papers, and make the built-in models.

    docs/papers.md shows what each command measures.
    """,
)
