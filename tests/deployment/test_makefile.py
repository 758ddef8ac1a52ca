"""The Makefile explains itself, sets up once, and says what is missing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def make(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    # A make that runs these tests hands its own flags and ARGS down.
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("MAKE") and name != "ARGS"
    }
    return subprocess.run(
        ["make", "--no-print-directory", *arguments],
        cwd=cwd,
        env=clean,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def a_checkout(tmp_path: Path) -> Path:
    """Lay out what the Makefile needs, with a Python that only records what it was asked."""
    folder = tmp_path / "a checkout"
    folder.mkdir()
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, folder / name)
    fake = tmp_path / "python"
    fake.write_text(
        "#!/bin/sh\n"
        f'echo "$@" >> "{tmp_path}/asked"\n'
        'case "$*" in\n'
        '  *"-m pip --version"*) exit 1 ;;\n'
        '  *"-m venv"*) for last; do :; done\n'
        '    mkdir -p "$last/bin" && cp "$0" "$last/bin/python" ;;\n'
        '  *--version*) echo "Python 3.11.99" ;;\n'
        "esac\n"
    )
    fake.chmod(0o755)
    return folder


def asked(tmp_path: Path) -> list[str]:
    lines = (tmp_path / "asked").read_text().splitlines()
    (tmp_path / "asked").unlink()
    return lines


def test_make_without_a_target_lists_every_target() -> None:
    text = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY: (.*)$", text, re.MULTILINE)
    assert phony
    shown = make()
    assert shown.returncode == 0, shown.stderr
    for target in phony[1].split():
        if target != "stale":
            assert re.search(rf"^  make {target} +\S", shown.stdout, re.MULTILINE), target


def test_make_without_a_usable_python_says_what_to_install() -> None:
    for python in ("", "/nowhere/python3", "false"):
        refused = make("setup", "VENV=does-not-exist", f"PYTHON={python}")
        assert refused.returncode != 0
        (line,) = [line for line in refused.stderr.splitlines() if line.startswith("error: ")]
        assert "Python 3.11" in line
        assert "make PYTHON=" in line
        assert not (ROOT / "does-not-exist").exists()


def test_make_picks_a_python_that_is_new_enough_and_makes_environments() -> None:
    shown = make("help").stdout
    picked = re.search(r"PYTHON=(\S+)", shown)
    assert picked
    check = "import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))"
    assert subprocess.run([picked[1], "-c", check], check=False).returncode == 0


def test_make_demo_sets_up_once_and_serves_on_the_chosen_address(tmp_path: Path) -> None:
    folder = a_checkout(tmp_path)
    fake = f"PYTHON={tmp_path / 'python'}"
    first = make("demo", fake, "PORT=8123", cwd=folder)
    assert first.returncode == 0, first.stderr
    calls = asked(tmp_path)
    assert any("-m venv" in call for call in calls)
    (install,) = [call for call in calls if "-m pip install" in call]
    assert "-c constraints.txt -e ." in install
    assert calls[-1] == "-m hasse demo --host 127.0.0.1 --port 8123"

    make("demo", fake, cwd=folder)
    again = asked(tmp_path)
    assert not [call for call in again if "pip" in call or "venv" in call.split()]
    assert again[-1].endswith("demo --host 127.0.0.1 --port 8000")


def test_make_sets_up_again_after_a_changed_requirement_or_a_moved_checkout(tmp_path: Path) -> None:
    folder = a_checkout(tmp_path)
    fake = f"PYTHON={tmp_path / 'python'}"
    make("test", fake, cwd=folder)
    assert sum("constraints.txt -e ." in call for call in asked(tmp_path)) == 2

    later = (folder / ".venv" / ".ready-dev").stat().st_mtime + 2
    os.utime(folder / "constraints.txt", (later, later))
    make("test", fake, cwd=folder)
    assert sum("constraints.txt -e ." in call for call in asked(tmp_path)) == 2

    moved = folder.rename(tmp_path / "moved")
    make("test", fake, cwd=moved)
    assert sum("constraints.txt -e ." in call for call in asked(tmp_path)) == 2


def test_make_does_not_take_a_failed_installation_for_done(tmp_path: Path) -> None:
    folder = a_checkout(tmp_path)
    python = tmp_path / "python"
    works = python.read_text()
    python.write_text(
        works.replace("case", 'case "$*" in *"pip install"*) exit 7 ;; esac\ncase', 1)
    )
    assert make("setup", f"PYTHON={python}", cwd=folder).returncode != 0
    assert not (folder / ".venv" / ".ready").exists()
