"""Exit statuses of commands, and the one line of an error."""

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

    def invoke(self, ctx: Any) -> Any:
        """Run the chosen command.

        An error prints `error: ...` with status 1, Ctrl-C prints `stopped: ...` with status 130.
        An exception that is a bug keeps its traceback.
        """
        try:
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
    """Tell whether memory ran out; torch has no exception class of its own for it on a CPU."""
    on_gpu = type(error).__name__ == "OutOfMemoryError"
    return isinstance(error, MemoryError) or on_gpu or "DefaultCPUAllocator" in str(error)


@contextmanager
def resumable(kept: Callable[[], str]) -> Iterator[None]:
    """On Ctrl-C, print which work is kept and how to continue."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(kept()) from None
