"""Nobody is sent to the package index for `hasse`: that name is somebody else's there."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from hasse.models import errors

ROOT = Path(__file__).parents[2]
_FOREIGN = re.compile(r"""pip3? install (?:-\S+ )*['"]?hasse(?![\w-])|\bhasse\[\w""")


def test_distribution_is_called_hasse_search_and_installs_the_command_hasse() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["name"] == "hasse-search"
    assert list(project["scripts"]) == ["hasse"]


def test_pages_and_messages_never_install_hasse_from_the_package_index() -> None:
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    files = listed.stdout.splitlines() or [
        str(path.relative_to(ROOT)) for path in ROOT.rglob("*") if path.suffix in {".md", ".py"}
    ]
    read = 0
    for name in files:
        path = ROOT / name
        if path.suffix not in {".md", ".py", ".html", ".yml", ".toml"} or path == Path(__file__):
            continue
        if not path.is_file():
            continue
        read += 1
        found = _FOREIGN.search(path.read_text(encoding="utf-8"))
        assert found is None, f"{name}: {found}"
    assert read > 300, "the pages and sources were found"


@pytest.mark.parametrize(
    "text", ["pip install hasse", "pip install -U 'hasse[heic]'", "hasse[raw]"]
)
def test_search_for_the_foreign_name_finds_it(text: str) -> None:
    assert _FOREIGN.search(text)


@pytest.mark.parametrize("text", ["pip install hasse-search", 'pip install "hasse-search[heic]"'])
def test_search_for_the_foreign_name_leaves_ours(text: str) -> None:
    assert not _FOREIGN.search(text)


def test_advice_names_the_clone_where_there_is_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert errors.pip_install("heic") == 'pip install -e ".[heic]"'
    monkeypatch.setattr(errors, "_CLONE", tmp_path)
    assert errors.pip_install("heic") == 'pip install "hasse-search[heic]"'
