"""How commands end: one line for a mistake, one for Ctrl-C, a traceback for our own faults."""

from __future__ import annotations

import errno
import os

import pytest
import torch
import typer
from typer.testing import CliRunner

from models.datasets import DatasetError
from service.cli.terminal.errors import Mistake, Shell, Stopped, explain, keeping


def run(action: Exception | type[BaseException]) -> tuple[int, str]:
    app = typer.Typer(cls=Shell, pretty_exceptions_enable=False)

    @app.callback()
    def root() -> None:
        """Make it a group."""

    @app.command()
    def act() -> None:
        raise action

    result = CliRunner().invoke(app, ["act"])
    assert result.stdout == "", "messages must not get into what a script reads"
    return result.exit_code, result.stderr


@pytest.mark.parametrize("kind", [Mistake, DatasetError])
def test_a_mistake_is_one_line_and_status_1(kind: type[Exception]) -> None:
    assert run(kind("there is no x:\n  name another")) == (
        1,
        "error: there is no x: name another\n",
    )


def test_ctrl_c_says_what_is_kept_and_ends_with_130() -> None:
    assert run(Stopped("two shards are kept")) == (130, "stopped: two shards are kept\n")


def test_ctrl_c_anywhere_else_is_one_line_too() -> None:
    status, line = run(KeyboardInterrupt)
    assert status == 130
    assert line.startswith("stopped: ")
    assert line.count("\n") == 1


def test_our_own_fault_keeps_its_traceback() -> None:
    assert explain(ZeroDivisionError("division by zero")) is None
    assert explain(ValueError("x")) is None


def test_memory_that_is_not_there_is_a_sentence() -> None:
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
def test_what_the_system_refuses_names_the_file_and_the_remedy(number: int, remedy: str) -> None:
    assert explain(OSError(number, os.strerror(number), "/data/x")) == f"/data/x: {remedy}"
    assert explain(OSError(number, os.strerror(number))) == remedy


def test_an_error_of_no_known_reason_is_ours_and_a_reader_that_left_is_none() -> None:
    assert explain(OSError("broken")) is None
    assert explain(BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))) is None


def test_work_that_is_kept_is_told_of_only_when_it_is_interrupted() -> None:
    with keeping(lambda: "kept"):
        pass
    with pytest.raises(Stopped, match="kept"), keeping(lambda: "kept"):
        raise KeyboardInterrupt
    with pytest.raises(Mistake), keeping(lambda: "kept"):
        raise Mistake("no")
