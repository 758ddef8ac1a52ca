"""How every command ends: well, with one line that says what is wrong, or stopped by hand."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperGroup

from models.errors import HasseError

ORDER = (
    *("demo", "data", "features", "distill", "train", "evaluate", "index", "search", "entails"),
    *("serve", "key", "hypernyms", "entailment"),
)
INTERRUPTED = 130  # 128 + SIGINT, as a shell reports it


class Mistake(HasseError):
    """Something asked of the command line that it cannot do; the message has the remedy."""


class Stopped(Exception):
    """Ctrl-C during work that is kept; the message says what is kept and how to go on."""


class Shell(TyperGroup):
    """The root command: turns what commands raise into one line and an exit status."""

    def list_commands(self, ctx: Any) -> list[str]:
        """List commands in the order in which one needs them."""
        return sorted(super().list_commands(ctx), key=ORDER.index)

    def invoke(self, ctx: Any) -> Any:
        """Run the chosen command.

        A mistake ends with `error: ...` and status 1, Ctrl-C with `stopped: ...` and 130.
        Anything else is a fault of ours and keeps its traceback.
        """
        try:
            return super().invoke(ctx)
        except Stopped as stopped:
            typer.echo(f"stopped: {stopped}", err=True)
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
    """Return the sentence for a person, or None for an error that is not theirs to mend."""
    if isinstance(error, HasseError):
        return " ".join(str(error).split())
    if _is_out_of_memory(error):
        return (
            "there is not enough memory for this: choose fewer coordinates, smaller pictures or "
            "fewer of them at a time"
        )
    if isinstance(error, BrokenPipeError):
        return None  # `hasse ... | head` is not an error; typer ends it quietly
    if isinstance(error, OSError) and error.strerror:
        place = f"{error.filename}: " if error.filename else ""
        return f"{place}{error.strerror.lower()}{_remedy(error.errno)}"
    return None


def _is_out_of_memory(error: Exception) -> bool:
    """Tell whether memory was refused; on a CPU torch has no exception of its own for it."""
    on_gpu = type(error).__name__ == "OutOfMemoryError"
    return isinstance(error, MemoryError) or on_gpu or "DefaultCPUAllocator" in str(error)


def _remedy(number: int | None) -> str:
    return {
        errno.ENOSPC: "; free some space and run the same command again",
        errno.EACCES: "; choose a folder that you may read and write",
        errno.EROFS: "; choose a folder that can be written",
        errno.ENOENT: "; check the path",
        errno.EMFILE: "; raise the limit on open files with 'ulimit -n'",
    }.get(number or 0, "")


@contextmanager
def keeping(kept: Callable[[], str]) -> Iterator[None]:
    """Say on Ctrl-C what of this work is kept, and how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        raise Stopped(kept()) from None
