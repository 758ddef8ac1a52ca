"""Turns exceptions of commands into an exit status and one line."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperGroup

from hasse.models.errors import HasseError
from hasse.service.cli.terminal.output import one_line

INTERRUPTED = 130  # 128 + SIGINT, as shells report it
_UsageError: Any = typer.BadParameter.__base__  # typer exports no name for it

_REMEDIES = {
    errno.ENOSPC: "; free some space and run the same command again",
    errno.EACCES: "; choose a folder that you may read and write",
    errno.EROFS: "; choose a folder that can be written",
    errno.ENOENT: "; check the path",
    errno.EMFILE: "; raise the limit on open files with 'ulimit -n'",
}


class CommandError(HasseError):
    """A command cannot run with these arguments; the message includes the remedy."""


class Interrupted(Exception):
    """Ctrl-C during resumable work; the message says what is kept and how to continue."""


class CommandGroup(TyperGroup):
    """The root command: turns exceptions into one line and an exit status."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the options of the root; an error of usage prints one line."""
        with _usage_errors():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the chosen command.

        An error prints `error: ...` with status 1, or 2 for an error of usage. Ctrl-C prints
        `stopped: ...` with status 130. An exception that is a bug keeps its traceback.
        """
        try:
            with _usage_errors():
                return super().invoke(ctx)
        except Interrupted as interrupted:
            typer.echo(f"stopped: {interrupted}", err=True)
            raise typer.Exit(INTERRUPTED) from None
        except KeyboardInterrupt:
            typer.echo("stopped: nothing was changed", err=True)
            raise typer.Exit(INTERRUPTED) from None
        except Exception as error:
            sentence = explain(error)
            if sentence is None:
                raise
            typer.echo(f"error: {sentence}", err=True)
            raise typer.Exit(1) from None


@contextmanager
def _usage_errors() -> Iterator[None]:
    """Print an error of usage as `error: ...` with status 2. A help text stays as it is."""
    try:
        yield
    except _UsageError as error:
        command = error.ctx.command_path
        message = error.format_message()
        if message == error.ctx.get_help():  # the command was called without arguments
            raise
        sentence = f"{message[:1].lower()}{message[1:]}".removesuffix(".")
        remedy = "" if sentence.endswith("?") else f"; see '{command} --help'"
        typer.echo(f"error: {one_line(sentence)}{remedy}", err=True)
        raise typer.Exit(2) from None


def explain(error: Exception) -> str | None:
    """Return a sentence for the user, or None if the error is a bug."""
    if isinstance(error, HasseError):
        return " ".join(str(error).split())
    if _is_out_of_memory(error):
        return (
            "there is not enough memory: choose fewer coordinates, smaller pictures or "
            "fewer of them at a time"
        )
    if isinstance(error, BrokenPipeError):
        return None  # `hasse ... | head` is not an error; typer ends it quietly
    if isinstance(error, OSError) and error.strerror:
        place = f"{error.filename}: " if error.filename else ""
        return one_line(f"{place}{error.strerror.lower()}{_REMEDIES.get(error.errno or 0, '')}")
    return None


def _is_out_of_memory(error: Exception) -> bool:
    """Return whether memory ran out. On a CPU, torch raises a plain RuntimeError."""
    on_gpu = type(error).__name__ == "OutOfMemoryError"
    return isinstance(error, MemoryError) or on_gpu or "DefaultCPUAllocator" in str(error)


@contextmanager
def resumable(message: Callable[[], str]) -> Iterator[None]:
    """On Ctrl-C, print a message: which work is kept, and how to continue."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(message()) from None
