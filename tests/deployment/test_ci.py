""".ci/run works on a bare machine: it installs what is missing and hides no failure."""

from __future__ import annotations

import os
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]


# What the schema of GitHub's workflows allows, as far as ours uses it.
WORKFLOW_KEYS = {"name", True, "permissions", "jobs"}  # YAML reads the key `on` as true
JOB_KEYS = {"name", "runs-on", "container", "timeout-minutes", "strategy", "steps"}


def stand_in(folder: Path, name: str, body: str) -> None:
    path = folder / name
    path.write_text(f'#!/bin/sh\necho "{name} $*" >> "{folder}/calls"\n{body}\n')
    path.chmod(0o755)


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A folder of commands: the few real ones that the script needs, and recording stand-ins."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("bash", "sh", "dirname", "grep", "id", "sleep", "cat", "mktemp", "mv", "rm"):
        real = shutil.which(name)
        assert real
        (folder / name).symlink_to(real)
    programs = ("make", "chromium", "apt-get", "python3", "chown", "initdb", "pg_ctl", "eatmydata")
    for name in programs:
        stand_in(folder, name, "exit 0")
    stand_in(folder, "runuser", 'shift 3; exec "$@"')
    stand_in(folder, "fc-list", "echo a-font")
    return folder


def run_ci(machine: Path) -> tuple[int, list[str]]:
    done = subprocess.run(
        [ROOT / ".ci" / "run"],
        env={"PATH": str(machine), "HOME": os.environ.get("HOME", "/"), "POSTGRESQL": "/nowhere"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, (machine / "calls").read_text().splitlines()


def test_run_on_a_machine_that_has_everything_only_tests(machine: Path) -> None:
    status, calls = run_ci(machine)
    assert status == 0
    assert [call for call in calls if call.startswith("make")] == [
        "make setup",
        "make lint",
        "make types",
        "make test-all",
        "make test-core",
        "make paired",
    ]
    assert not [call for call in calls if call.startswith("apt-get")]


def test_run_starts_a_database_server_before_the_tests_and_stops_it(machine: Path) -> None:
    names = ("initdb", "pg_ctl", "make test-all")
    status, calls = run_ci(machine)
    assert status == 0
    steps = [call for call in calls if call.startswith(names)]
    assert [step.split()[0] for step in steps] == ["initdb", "pg_ctl", "make", "pg_ctl"]
    assert " start " in steps[1]
    assert steps[-1].endswith("stop")
    stand_in(machine, "pg_ctl", "exit 1")
    assert run_ci(machine)[0] != 0


def test_run_on_a_bare_machine_installs_what_is_missing(machine: Path) -> None:
    (machine / "chromium").unlink()
    (machine / "eatmydata").unlink()
    (machine / "pg_ctl").rename(machine / "packaged")
    stand_in(machine, "apt-get", f'[ "$1" = update ] || mv "{machine}/packaged" "{machine}/pg_ctl"')
    stand_in(machine, "python3", "exit 1")
    stand_in(machine, "fc-list", "exit 0")
    status, calls = run_ci(machine)
    assert status == 0
    (install,) = [call for call in calls if call.startswith("apt-get install")]
    wanted = {"python3-venv", "chromium", "fonts-dejavu-core", "postgresql", "eatmydata"}
    assert wanted <= set(install.split())
    assert calls.index("apt-get update -q") < calls.index(install)


def test_run_asks_again_for_a_package_list_that_failed(machine: Path) -> None:
    (machine / "chromium").unlink()
    (machine / "sleep").unlink()
    stand_in(machine, "sleep", "exit 0")
    stand_in(
        machine, "apt-get", f'[ "$(grep -c "apt-get update" "{machine}/calls")" -gt 1 ] || exit 100'
    )
    status, calls = run_ci(machine)
    assert status == 0
    assert calls.count("apt-get update -q") == 2


@pytest.mark.parametrize("check", ["setup", "lint", "types", "test-all", "test-core"])
def test_run_fails_where_any_check_fails(machine: Path, check: str) -> None:
    stand_in(machine, "make", f'[ "$1" != {check} ]')
    status, calls = run_ci(machine)
    assert status != 0
    assert check == "setup" or "make test-all" in calls


def test_run_passes_where_nothing_can_be_compared_with_the_last_release(machine: Path) -> None:
    stand_in(machine, "make", '[ "$1" != paired ]')
    assert run_ci(machine)[0] == 0


@pytest.fixture(scope="module")
def workflow() -> dict[Any, Any]:
    loaded = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    return dict(loaded)


def test_workflow_has_the_shape_that_github_reads(workflow: dict[Any, Any]) -> None:
    assert set(workflow) == WORKFLOW_KEYS
    assert set(workflow[True]) == {"push", "pull_request"}
    for job in workflow["jobs"].values():
        assert {"runs-on", "steps"} <= set(job) <= JOB_KEYS
        assert isinstance(job["timeout-minutes"], int)
        assert set(job.get("strategy", {})) <= {"fail-fast", "matrix", "max-parallel"}
        assert all(len({"run", "uses"} & set(step)) == 1 for step in job["steps"])


def test_workflow_calls_run_on_every_python_of_the_metadata(workflow: dict[Any, Any]) -> None:
    job = workflow["jobs"]["run"]
    assert {"run": ".ci/run"} in job["steps"]
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    named = "Programming Language :: Python :: 3."
    minors = {each.removeprefix(named) for each in classifiers if each.startswith(named)}
    assert set(job["strategy"]["matrix"]["python"]) == {f"3.{minor}" for minor in minors}
    assert "${{ matrix.python }}" in job["container"]
