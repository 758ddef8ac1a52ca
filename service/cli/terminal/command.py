"""Classes of commands: help on one screen, and words with a dash."""

from __future__ import annotations

import re
from typing import Any

import typer
from typer.core import TyperCommand

# A dash and two letters or more: -people, not -n or -n24.
_EXCLUDED_WORD = re.compile(r"-[^\W\d_][^\W\d]+.*", re.DOTALL)
_ALL = "--help-all"
_MINUS = "\N{MINUS SIGN}"
# Parameters whose options only `--help-all` shows.
_ADVANCED = frozenset(
    (
        *("added_before", "added_from", "all_of", "batch_size", "candidates"),
        *("device", "evidence", "follow_links", "has_captions", "has_place"),
        *("leave_out_missing", "max_violation", "mode", "model", "null", "preview"),
        *("similar", "split", "versions", "workers"),
    )
)


class ShortCommand(TyperCommand):
    """A command for a person with pictures: `--help-all` shows advanced options too."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse options, or show the help with all of them."""
        if _ALL in args:
            ctx.meta[_ALL] = True
            typer.echo(self.get_help(ctx))
            raise typer.Exit
        return super().parse_args(ctx, args)

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters; options for experts are hidden unless `--help-all` is given."""
        params: list[Any] = super().get_params(ctx)
        for param in params:
            if param.name in _ADVANCED:
                param.hidden = _ALL not in ctx.meta
        return params

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write how to see the hidden options, if there are any."""
        if any(getattr(param, "hidden", False) for param in self.params):
            formatter.write_paragraph()
            formatter.write_text(f"{_ALL} shows all options.")


class Query(ShortCommand):
    """A command whose words may begin with a dash: `-people` leaves people out."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse options; a word such as `-people` is an argument."""
        options = {name for param in self.params for name in param.opts}
        words = [
            _MINUS + arg[1:] if _EXCLUDED_WORD.fullmatch(arg) and arg not in options else arg
            for arg in args
        ]
        return super().parse_args(ctx, words)


def restore_dash(word: str) -> str:
    """Return an argument of a `Query` with the dash that the user typed."""
    return f"-{word[1:]}" if word.startswith(_MINUS) else word
