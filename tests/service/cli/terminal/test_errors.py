"""How commands end: one line for an error or Ctrl-C, a traceback for a bug."""

from __future__ import annotations

import errno
import os

import pytest
import torch
import typer
from typer.testing import CliRunner

from hasse.models.datasets import DatasetError
from hasse.service.cli.terminal.errors import (
    CommandError,
    CommandGroup,
    Interrupted,
    explain,
    resumable,
)


def run(action: Exception | type[BaseException]) -> tuple[int, str]:
    app = typer.Typer(cls=CommandGroup, pretty_exceptions_enable=False)

    @app.callback()
    def root() -> None:
        """Make it a group."""

    @app.command()
    def act() -> None:
        raise action

    result = CliRunner().invoke(app, ["act"])
    assert result.stdout == "", "messages must not get into what a script reads"
    return result.exit_code, result.stderr


@pytest.mark.parametrize("kind", [CommandError, DatasetError])
def test_invoke_with_error_prints_one_line_and_exits_with_1(kind: type[Exception]) -> None:
    assert run(kind("there is no x:\n  name another")) == (
        1,
        "error: there is no x: name another\n",
    )


def test_invoke_with_interrupted_says_what_is_kept_and_exits_with_130() -> None:
    assert run(Interrupted("two shards are kept")) == (130, "stopped: two shards are kept\n")


def test_invoke_with_ctrl_c_prints_one_line_and_exits_with_130() -> None:
    status, line = run(KeyboardInterrupt)
    assert status == 130
    assert line.startswith("stopped: ")
    assert line.count("\n") == 1


def test_explain_of_a_bug_is_none() -> None:
    assert explain(ZeroDivisionError("division by zero")) is None
    assert explain(ValueError("x")) is None


def test_explain_of_out_of_memory_is_a_sentence() -> None:
    with pytest.raises(RuntimeError) as on_cpu:
        torch.empty(2**58)
    for refused in (on_cpu.value, torch.OutOfMemoryError("CUDA out of memory"), MemoryError()):
        assert "not enough memory" in str(explain(refused))


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOSPC, "no space left on device; free some space and run the same command again"),
        (errno.EACCES, "permission denied; choose a folder that you may read and write"),
        (errno.EROFS, "read-only file system; choose a folder that can be written"),
        (errno.ENOENT, "no such file or directory; check the path"),
        (errno.EMFILE, "too many open files; raise the limit on open files with 'ulimit -n'"),
        (errno.EISDIR, "is a directory"),
    ],
)
def test_explain_of_oserror_names_the_file_and_the_remedy(number: int, remedy: str) -> None:
    assert explain(OSError(number, os.strerror(number), "/data/x")) == f"/data/x: {remedy}"
    assert explain(OSError(number, os.strerror(number))) == remedy


def test_explain_of_oserror_without_reason_or_broken_pipe_is_none() -> None:
    assert explain(OSError("broken")) is None
    assert explain(BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))) is None


def test_resumable_says_what_is_kept_only_on_ctrl_c() -> None:
    with resumable(lambda: "kept"):
        pass
    with pytest.raises(Interrupted, match="kept"), resumable(lambda: "kept"):
        raise KeyboardInterrupt
    with pytest.raises(CommandError), resumable(lambda: "kept"):
        raise CommandError("no")
