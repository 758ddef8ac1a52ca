"""Classes of commands: help on one screen, words with a dash, and options that were renamed."""

from __future__ import annotations

import re
from typing import Any

import typer
from typer.core import TyperCommand

# A dash and two letters or more: -people, not -n or -n24.
_EXCLUDED_WORD = re.compile(r"-[^\W\d_][^\W\d]+.*", re.DOTALL)
_ALL = "--help-all"
_MINUS = "\N{MINUS SIGN}"
_LIBRARY = "now --library, on every command"
# Options of 0.2.0 that were removed, and their replacements.
_RENAMED = {
    "--index": _LIBRARY,
    "--top": "now -n",
    "--taken-from": "now --since",
    "--taken-before": "now --before",
    "--similar": "now 'hasse like PICTURE'",
    "--plus": "now 'hasse like PICTURE + snow - dog'",
    "--minus": "now 'hasse like PICTURE + snow - dog'",
    "--common": "now 'hasse lab captions PART...'",
    "--follow": "gone: 'hasse serve' follows the folders of the library",
}
# Parameters whose options only `--help-all` shows.
_ADVANCED = frozenset(
    (
        *("added_before", "added_from", "all_of", "batch_size", "candidates"),
        *("device", "evidence", "follow_links", "has_captions", "has_place"),
        *("leave_out_missing", "max_violation", "mode", "model", "null", "preview", "rating"),
        *("similar", "split", "versions", "workers"),
    )
)


class Command(TyperCommand):
    """A command that shows all of its options."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse options; for one that was renamed, print its new name and end with status 2."""
        names = {name for param in self.params for name in (*param.opts, *param.secondary_opts)}
        for arg in args[: args.index("--") if "--" in args else len(args)]:
            option = arg.partition("=")[0]
            if option in _RENAMED and option not in names:
                typer.echo(f"error: {option} is {_RENAMED[option]}", err=True)
                raise typer.Exit(2)
        return super().parse_args(ctx, args)


class ShortCommand(Command):
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
