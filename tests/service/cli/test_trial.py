"""The command line as a person with pictures meets it: 43 steps, and the commands of the documents.

`pytest -s` prints the time of each step and what had to be typed.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import typer
from PIL import Image

from hasse.models.checkpoints import checkpoint, named_models
from hasse.service.writing.folders import scan
from tests import tiny
from tests.phrases import make_phrases
from tests.service.cli.shell import hasse

ROOT = Path(__file__).parents[3]
MORE_WORDS = ["beach", "brown", "car", "poodle", "outdoors", "on", "an", "people", "rain", "snow"]
DOCUMENTS = ("README.md", "docs/collections.md", "docs/describe.md")
# What goes on until it is stopped, or needs a dataset or a package that is not there.
NOT_RUN = re.compile(
    r"hasse (serve|demo|mcp|ocr|use|lab (model|data|index build)|study|.*--watch|.*parquet)"
)


def photograph(path: Path, seed: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    colours = np.random.default_rng(seed).integers(0, 256, (4, 4, 3), dtype=np.uint8)
    Image.fromarray(colours).resize((90, 60)).save(path)
    old = time.time() - 1000  # a file that is still being written looks younger
    os.utime(path, (old, old))
    return path


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A person's home with pictures, and a tiny model in the place of the built-in one."""
    monkeypatch.setattr(tiny, "WORDS", [*tiny.WORDS, *MORE_WORDS])
    model = tiny.tiny_checkpoint(tmp_path / "models" / "photographs")
    make_phrases(checkpoint.load(model))
    tiny.tiny_checkpoint(tmp_path / "models" / "clip", seed=1)
    monkeypatch.setattr(named_models, "PRETRAINED", tmp_path / "models")
    home = tmp_path / "home"
    for at in range(4):
        photograph(home / "Pictures" / "2024" / f"IMG_{at}.jpg", at)
    (home / "Pictures" / "2024" / "IMG_0.txt").write_text("a dog in the park\n")
    for at, name in enumerate(("photo.jpg", "one.jpg", "another.jpg")):
        photograph(home / name, 10 + at)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("HASSE_HOME", str(home / ".local"))
    monkeypatch.delenv("HASSE_LIBRARY", raising=False)
    monkeypatch.chdir(home)
    monkeypatch.setattr(typer, "launch", lambda path: 0)
    monkeypatch.setattr(scan, "_TICK_SECONDS", 0.0)  # as if the files had been at rest
    return home


class Trial:
    """Types commands as a shell would, and notes what each took."""

    def __init__(self) -> None:
        self.rows: list[tuple[float, str]] = []

    def __call__(self, line: str, *shown: str, status: int = 0) -> str:
        """Type a command; each of `shown` must be in what it prints, and nothing ends in a bug."""
        words = [
            re.sub("^~", str(Path.home()), word) for word in shlex.split(line, comments=True)[1:]
        ]
        started = time.perf_counter()
        found = hasse(*words) if words else hasse()
        self.rows.append((time.perf_counter() - started, line))
        printed = found.out + found.err
        assert found.status == status, f"{line}: {printed}"
        for text in shown:
            assert text in printed, f"{line}: {printed}"
        return printed


@pytest.mark.torch
def test_trial_of_43_steps_ends_each_step_as_a_person_expects(home: Path) -> None:
    step = Trial()
    pictures = home / "Pictures"
    (pictures / "cut.jpg").write_bytes((home / "photo.jpg").read_bytes()[:200])
    os.utime(pictures / "cut.jpg", (1, 1))

    step("hasse", "add ~/Pictures", "search", "serve", status=2)
    step("hasse --help", "Add folders")
    step("hasse search a dog", "no library", "'hasse add FOLDER'", status=1)
    step("hasse status", "'hasse add FOLDER'", status=1)
    step("hasse add", "missing argument", status=2)
    step("hasse add ~/Picturse", "there is no picture or folder", status=1)
    (home / "My pictures").mkdir()
    step("hasse add My pictures", 'put it in quotes, as in "My pictures"', status=1)
    step("hasse add ~/Pictures --library ~/Pictures", "no place for a library", status=1)
    dry = step("hasse add ~/Pictures --dry-run", "4 pictures added; 1 caption added", "cut.jpg")
    assert not (home / ".local" / "library").exists()
    done = step("hasse add ~/Pictures", "4 pictures added; 1 caption added", "next: ")
    assert dry.partition("nothing was changed; without --dry-run: ")[2] in done
    assert "cut.jpg" not in step("hasse add ~/Pictures", "0 pictures added; 4 were there already")
    step("hasse add ~/Pictures/cut.jpg", "0 pictures added", "named before: 1", status=1)
    step("hasse status", str(pictures), "tiny", "1 file cannot be read")

    step("hasse search a dog in the park", "IMG_0.jpg", "a dog in the park", "checked all 4")
    # The tiny model sees people in every picture; the captions have no word of them.
    step("hasse search dog -people --evidence says", "IMG_0.jpg")
    step("hasse search a dog --in ~/Pictures/2023", "there is no folder", "has 2024/", status=1)
    step("hasse search a dog --in '~/My pictures'", "no picture of the library lies in")
    step("hasse search ''", "say what the pictures show", status=1)
    step("hasse search zeppelin --evidence says", "nothing found")
    step("hasse search a dog --in ~/Pictures/2024 --since 2001 --before 2100", "IMG_0.jpg")
    step("hasse search a dog --since yesterday", "write it as 2024-07-31", status=1)
    assert len(step("hasse search a dog -n 2 --paths --open").splitlines()) == 2
    assert len(json.loads(step("hasse search a dog --json"))["hits"]) == 4
    step("hasse search --help", "--since", "--help-all")
    step("hasse search --help-all", "--max-violation")
    step("hasse search photo.jpg", "'hasse like photo.jpg'", status=1)
    step("hasse like photo.jpg", "IMG_")
    step("hasse like photo.jpg + snow", "IMG_")
    step("hasse like photo.jpg + a cat - a dog", "IMG_")
    step("hasse like photo.jpg a cat", "write + or - before 'a'", status=1)
    step("hasse check photo.jpg a dog on a beach", "likely")
    step("hasse check 'a dog' photo.jpg", "likely")
    step("hasse check 'a poodle' 'an animal'", "follow")
    step("hasse describe photo.jpg", "written caption")
    step("hasse describe --all", "3 captions written")

    (pictures / "2024" / "IMG_1.jpg").rename(pictures / "beach.jpg")
    (pictures / "2024" / "IMG_2.jpg").unlink()
    photograph(home / "Scans" / "old.jpg", 20)
    line = "0 pictures added, 1 moved, 1 removed"
    step("hasse sync --dry-run", line, "nothing was changed")
    step("hasse sync", line)
    step("hasse add ~/Scans", "1 picture added")
    step("hasse remove ~/Scans", "1 picture removed")
    step("hasse remove ~/Pictures/beach.jpg", "1 picture removed")
    step("hasse sync", "removed before")
    step("hasse use clip", "2 pictures read by 'tiny'")
    step("hasse status --verify", "whole; ", "nothing new, changed or gone")

    assert len(step.rows) == 43
    assert (home / "Scans" / "old.jpg").exists()
    assert sorted(path.name for path in home.iterdir()) == [
        *(".local", "My pictures", "Pictures", "Scans", "another.jpg", "one.jpg", "photo.jpg"),
    ]
    for seconds, typed in step.rows:
        sys.stdout.write(f"{seconds:6.2f} s  {len(typed):3} characters  {typed}\n")


def short_commands() -> list[str]:
    """Return the commands of the documents that a person with pictures types."""
    lines = []
    for name in DOCUMENTS:
        text = (ROOT / name).read_text(encoding="utf-8")
        for block in re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S):
            lines += [line.partition(" | ")[0] for line in block.splitlines()]
    found = (line for line in lines if line.startswith("hasse ") and not NOT_RUN.match(line))
    return list(dict.fromkeys(line.partition("  #")[0].rstrip() for line in found))


@pytest.mark.torch
def test_short_commands_of_the_documents_run_as_they_stand(home: Path) -> None:
    commands = short_commands()
    assert len(commands) > 15
    for at, name in enumerate(("scans/scan.jpg", "beach.jpg", *(f"{at}.jpg" for at in range(20)))):
        photograph(home / "Pictures" / name, 100 + at)
    step = Trial()
    step("hasse add ~/Pictures")
    for command in commands:
        step(command)
