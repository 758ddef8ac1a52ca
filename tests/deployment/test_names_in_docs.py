"""What CONTRIBUTING.md and docs/architecture.md name is there: paths, targets, commands, code."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FLOORS = ("models", "index", "service", "lab", "studies", "scenes", "hasse", "benchmarks", "tests")
PAGES = ("CONTRIBUTING.md", "docs/architecture.md")
# Of the examples of a first change: what a reader will write.
TO_BE_WRITTEN = {"width_from", "huggingface.py", "huggingface", "transformers"}
_NAME = re.compile(r"[A-Za-z_][\w.]*(?:\(\))?")
_PATH = re.compile(r"[\w./-]+/[\w./-]*|[\w-]+\.(?:py|md|toml|txt|yml|json)")


@cache
def words_of_the_sources() -> frozenset[str]:
    """Return every word of the sources, and every name of a file or folder."""
    words: set[str] = set()
    for floor in FLOORS:
        for path in (ROOT / floor).rglob("*"):
            words.update(re.findall(r"\w+", path.stem))
            if path.suffix == ".py":
                words.update(re.findall(r"\w+", path.read_text(encoding="utf-8")))
    for name in ("Makefile", "pyproject.toml", ".ci/run"):
        words.update(re.findall(r"\w+", (ROOT / name).read_text(encoding="utf-8")))
    return frozenset(words)


def is_there(path: str) -> bool:
    """Return whether a path is a file or folder, from the root or at the end of a source's path."""
    if (ROOT / path).exists():
        return True
    ending = path.rstrip("/")
    return any(any((ROOT / floor).glob(f"**/{ending}")) for floor in FLOORS)


def names_of(page: str) -> set[str]:
    """Return what a page has in backticks, blocks of code left out."""
    text = re.sub(r"^```.*?^```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.M | re.S)
    return set(re.findall(r"`([^`]+)`", text)) - TO_BE_WRITTEN


@pytest.mark.parametrize("page", PAGES)
def test_every_path_in_backticks_exists(page: str) -> None:
    paths = {name for name in names_of(page) if _PATH.fullmatch(name) and not name.startswith("/")}
    assert len(paths) > 5
    assert [path for path in sorted(paths) if not is_there(path)] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_name_in_backticks_stands_in_the_sources(page: str) -> None:
    names = {name for name in names_of(page) if _NAME.fullmatch(name) and not _PATH.fullmatch(name)}
    assert len(names) > 5
    unknown = {
        name
        for name in names
        if not words_of_the_sources().issuperset(re.findall(r"\w+", name))
    }
    assert sorted(unknown) == []
