"""Every command explains itself, quickly."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer import Context
from typer.core import TyperCommand as Command
from typer.testing import CliRunner

import hasse.service.cli.app as app_module
from hasse.lab.commands.group import NeedsTorch
from hasse.service.cli.app import app
from hasse.service.cli.terminal.errors import CommandError
from tests.service.cli.shell import hasse

ROOT = Path(__file__).parents[3]
REFERENCE = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
DOCUMENTS = [
    path.read_text(encoding="utf-8")
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
]


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    if hasattr(command, "list_commands"):
        context = Context(command)
        for name in command.list_commands(context):
            yield from commands(command.get_command(context, name), (*path, name))


ROOT_GROUP: Any = typer.main.get_command(app)
HELPED = dict(commands(ROOT_GROUP))  # groups too
ALL = {path: command for path, command in HELPED.items() if not hasattr(command, "commands")}
STUDIES = any(path[0] == "study" for path in ALL)  # the product's tests run without them
MOST_COMMANDS, MOST_LINES, MOST_COLUMNS = 14, 40, 80


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_help_of_each_command_describes_it_and_its_options(path: tuple[str, ...]) -> None:
    shown = hasse(*path, "--help")
    assert shown.status == 0
    command = ALL[path]
    first = (command.help or "").strip().splitlines()[0]
    assert first.endswith((".", ":", ")")), first
    for parameter in command.params:
        assert getattr(parameter, "help", None), f"{' '.join(path)} {parameter.name}: no help"
    lines = shown.out.splitlines()
    assert max(map(len, lines)) <= MOST_COLUMNS
    assert len(lines) <= MOST_LINES or path[0] in ("lab", "study", "cluster")
    assert "\N{HORIZONTAL ELLIPSIS}" not in shown.out, "nothing is cut"


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_reference_lists_every_command(path: tuple[str, ...]) -> None:
    assert f"| `hasse {' '.join(path)}` |" in REFERENCE


def test_reference_lists_no_other_command() -> None:
    listed = {
        tuple(name.split()) for name in re.findall(r"^\| `hasse ([a-z0-9 -]+)` \|", REFERENCE, re.M)
    }
    assert {path for path in listed if STUDIES or path[0] != "study"} == set(ALL)


def test_every_example_in_the_documents_and_in_help_is_a_command_that_exists() -> None:
    texts = [*DOCUMENTS, *(command.help or "" for command in HELPED.values())]
    for text in (text.replace("\\\n", "") for text in texts):
        for line in re.findall(r"^ *(?:[A-Z_]+=\S+ )?hasse ([^|#\n]+?)(?: \\)?$", text, re.M):
            words = tuple(re.match(r"(?:[a-z0-9]+(?:-[a-z0-9]+)* ?)*", line)[0].split())  # type: ignore[index]
            if words[:1] == ("study",) and not STUDIES:
                continue
            known = any(words[: len(path)] == path for path in ALL)
            assert known, f"hasse {line}"
            for option in re.findall(r"(?<!\S)--[a-z-]+", line):
                path = next(path for path in ALL if words[: len(path)] == path)
                names = {name for one in ALL[path].params for name in one.opts + one.secondary_opts}
                assert option in names, f"hasse {line}: {option}"


def test_examples_in_help_fit_a_terminal_of_80_columns() -> None:
    for command in HELPED.values():
        for line in (command.help or "").splitlines():
            if line.startswith("  "):
                assert len(line) <= MOST_COLUMNS - 2, line  # they are indented


def test_hasse_without_arguments_lists_the_commands() -> None:
    shown = hasse()
    assert "demo" in shown.out + shown.err
    assert "Traceback" not in shown.err


def test_help_shows_at_most_14_commands_on_one_screen() -> None:
    shown = hasse("--help").out
    listed = [path[0] for path, command in HELPED.items() if len(path) == 1 and not command.hidden]
    assert len(listed) <= MOST_COMMANDS
    assert all(f"\n  {name} " in shown for name in listed)
    assert shown.count("\n") <= MOST_LINES


def test_help_all_shows_the_options_that_help_leaves_out() -> None:
    assert "--max-violation" not in hasse("search", "--help").out
    for words in (("--help-all",), ("a", "dog", "--help-all")):
        shown = hasse("search", *words)
        assert shown.status == 0
        assert "--max-violation" in shown.out
    assert "--max-violation" not in hasse("search", "--help").out


@pytest.mark.parametrize("package", ["hasse.lab", "hasse.studies"])
def test_group_of_a_missing_package_is_no_command(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        app_module, "find_spec", lambda name: None if name == package else find_spec(name)
    )
    group = package.rpartition(".")[2].replace("studies", "study")
    asked = hasse(group, "--help")
    assert asked.status == 2
    assert f"no such command '{group}'" in asked.err


@pytest.mark.parametrize("words", [("lab", "evaluate", "nowhere"), ("study", "plot", "nowhere")])
def test_command_without_torch_names_the_extra(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(self: object, ctx: object) -> None:
        raise ModuleNotFoundError("No module named 'torch'", name="torch")

    monkeypatch.setattr("typer.core.TyperGroup.invoke", missing)
    with pytest.raises(CommandError, match=r"torch, which is not installed: pip install .*\[lab\]"):
        NeedsTorch(name=words[0]).invoke(Context(Command(words[0])))


def test_version_is_that_of_the_package() -> None:
    assert hasse("--version").out == f"hasse {version('hasse-search')}\n"


def test_misspelt_command_gets_a_hint() -> None:
    wrong = hasse("serch", "a dog")
    assert wrong.status == 2
    assert "search" in wrong.err


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("check", "photo.jpg"), "missing argument 'TEXT'; see 'hasse check --help'"),
        (("search", "dog", "-k", "3"), "no such option: -k; see 'hasse search --help'"),
        (
            ("lab", "embed", "dog", "--json"),  # JSON lines are what it prints without an option
            "no such option: --json; see 'hasse lab embed --help'",
        ),
        (("lab", "learn"), "no such command 'learn'; see 'hasse lab --help'"),
        (("--quiet",), "no such option: --quiet; see 'hasse --help'"),
        (("serch", "dog"), "no such command 'serch'. Did you mean 'search', 'serve'?"),
    ],
)
def test_error_of_usage_is_one_line_with_the_remedy(words: tuple[str, ...], line: str) -> None:
    wrong = CliRunner().invoke(app, words, prog_name="hasse")
    assert wrong.exit_code == 2
    assert wrong.stdout == ""
    assert wrong.stderr == f"error: {line}\n"


@pytest.mark.parametrize("words", [(), ("search",), ("lab", "train"), ("lab", "model", "make")])
def test_help_with_a_command_prints_the_help_of_that_command(words: tuple[str, ...]) -> None:
    shown = hasse("help", *words)
    assert shown.status == 0
    assert shown.out == hasse(*words, "--help").out


def test_help_with_an_unknown_command_is_an_error() -> None:
    wrong = hasse("help", "nothing")
    assert wrong.status == 2
    assert "no such command 'nothing'" in wrong.error


def test_help_loads_nothing_heavy() -> None:
    program = (
        "import sys; from hasse.service.cli.app import app\n"
        "try: app(['--help'])\n"
        "except SystemExit: pass\n"
        "print('LOADED', *sorted({m.partition('.')[0] for m in sys.modules}))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = set(ran.stdout.rpartition("LOADED")[2].split())
    heavy = {"torch", "torchvision", "numpy", "faiss", "numba", "fastapi", "sqlalchemy"}
    assert not loaded & heavy


def test_output_that_the_locale_cannot_print_is_escaped() -> None:
    command = [
        sys.executable,
        "-m",
        "hasse",
        "serve",
        "--settings",
        "--library",
        "\u72d7",
    ]
    ran = subprocess.run(
        command, capture_output=True, env=os.environ | {"PYTHONIOENCODING": "latin-1"}, check=True
    )
    assert b"\\u72d7" in ran.stdout
