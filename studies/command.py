"""`hasse study`: the commands of the studies, imported when they are called."""

from __future__ import annotations

from collections.abc import Mapping

from hasse.lab.commands.group import NeedsTorch
from hasse.service.cli.terminal.help_text import Commands, LazyCommand, LazyGroup

_COMMANDS = {
    "hypernyms": "hypernyms.command:hypernyms",
    "entailment": "entailment.command:entailment",
    "transfer": "transfer.command:transfer",
    "states": "transfer.states_command:states",
    "captioner": "captioner.command:captioner",
    "scenes": "scenes.command:scenes",
    "photographs": "photographs.command:photographs",
    "grounding": "grounding.command:grounding",
    "distill": "distillation.command:distill",
    "figures": "tables.command:figures",
    "lengths": "tables.command:lengths",
    "plot": "tables.command:plot",
}


class StudyGroup(NeedsTorch, LazyGroup):
    """The commands in the table."""

    def table(self) -> Mapping[str, LazyCommand]:
        """Return the commands of the studies."""
        return {name: LazyCommand(f"hasse.studies.{path}") for name, path in _COMMANDS.items()}


study = Commands(
    cls=StudyGroup,
    hidden=True,
    help="""Reproduce the papers, and make the built-in models.

    docs/papers.md shows what each command measures.
    """,
)
