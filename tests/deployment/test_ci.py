""".ci/run works on a bare machine: it installs what is missing and hides no failure."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def stand_in(folder: Path, name: str, body: str) -> None:
    path = folder / name
    path.write_text(f'#!/bin/sh\necho "{name} $*" >> "{folder}/calls"\n{body}\n')
    path.chmod(0o755)


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A folder of commands: the few real ones that the script needs, and recording stand-ins."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("bash", "sh", "dirname", "grep", "id", "sleep", "cat"):
        real = shutil.which(name)
        assert real
        (folder / name).symlink_to(real)
    for name in ("make", "chromium", "apt-get", "python3"):
        stand_in(folder, name, "exit 0")
    stand_in(folder, "fc-list", "echo a-font")
    return folder


def run_ci(machine: Path) -> tuple[int, list[str]]:
    done = subprocess.run(
        [ROOT / ".ci" / "run"],
        env={"PATH": str(machine), "HOME": os.environ.get("HOME", "/")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, (machine / "calls").read_text().splitlines()


def test_a_machine_that_has_everything_is_only_tested(machine: Path) -> None:
    status, calls = run_ci(machine)
    assert status == 0
    assert [call for call in calls if call.startswith("make")] == [
        "make setup",
        "make lint",
        "make types",
        "make test",
    ]
    assert not [call for call in calls if call.startswith("apt-get")]


def test_a_bare_machine_gets_a_python_a_browser_and_a_font(machine: Path) -> None:
    (machine / "chromium").unlink()
    stand_in(machine, "python3", "exit 1")
    stand_in(machine, "fc-list", "exit 0")
    status, calls = run_ci(machine)
    assert status == 0
    (install,) = [call for call in calls if call.startswith("apt-get install")]
    assert {"python3-venv", "chromium", "fonts-dejavu-core"} <= set(install.split())
    assert calls.index("apt-get update -q") < calls.index(install)


def test_a_package_list_that_fails_once_is_asked_again(machine: Path) -> None:
    (machine / "chromium").unlink()
    (machine / "sleep").unlink()
    stand_in(machine, "sleep", "exit 0")
    stand_in(
        machine, "apt-get", f'[ "$(grep -c "apt-get update" "{machine}/calls")" -gt 1 ] || exit 100'
    )
    status, calls = run_ci(machine)
    assert status == 0
    assert calls.count("apt-get update -q") == 2


@pytest.mark.parametrize("check", ["setup", "lint", "types", "test"])
def test_any_failing_check_fails_the_run(machine: Path, check: str) -> None:
    stand_in(machine, "make", f'[ "$1" != {check} ]')
    status, calls = run_ci(machine)
    assert status != 0
    assert check == "setup" or "make test" in calls
