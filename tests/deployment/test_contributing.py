"""What contributors are given is in working order: hooks, forms, and targets that are named."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
# What GitHub's forms take.
FIELDS = {"markdown", "textarea", "input", "dropdown", "checkboxes"}


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE))


def test_hooks_are_checks_of_ci_and_download_nothing() -> None:
    (repository,) = load(ROOT / ".pre-commit-config.yaml")["repos"]
    assert repository["repo"] == "local"
    run = (ROOT / ".ci" / "run").read_text()
    for hook in repository["hooks"]:
        assert hook["language"] == "system"
        make, target = hook["entry"].split()
        assert make == "make"
        assert re.search(rf"for check in .*\b{target}\b", run), f".ci/run makes no {target}"


@pytest.mark.parametrize("path", [each for each in FORMS if each.stem != "config"])
def test_issue_form_has_the_shape_that_github_reads(path: Path) -> None:
    form = load(path)
    assert {"name", "description", "body"} <= set(form)
    for field in form["body"]:
        assert field["type"] in FIELDS
        assert field["attributes"]["label"]
        assert set(field.get("validations", {})) <= {"required"}
    names = [field["id"] for field in form["body"]]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", ".github/PULL_REQUEST_TEMPLATE.md"])
def test_targets_that_contributors_are_told_to_make_exist(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    for line in re.findall(r"(?:^|`)make ([a-z -]+?)(?:`|  | ARGS)", text, re.MULTILINE):
        assert set(line.split()) <= targets(), line
