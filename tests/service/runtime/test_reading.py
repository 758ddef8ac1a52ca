"""Text in pictures is read in the background, and who lacks the extra is told once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hasse.service.runtime import reading
from hasse.service.runtime.reading import BackgroundReading, advice
from tests.service.cli.shell import hasse
from tests.service.collection import picture
from tests.tiny import tiny_checkpoint


def test_reading_is_one_process_of_low_priority_that_can_be_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def start(command: list[str], **how: Any) -> subprocess.Popen[bytes]:
        assert command[-3:] == ["ocr", "--library", str(tmp_path)]
        sleeping = [sys.executable, "-c", "import time; time.sleep(60)"]
        started.append(popen(sleeping, **how))
        return started[-1]

    monkeypatch.setattr(reading, "find_spec", lambda name: name)
    monkeypatch.setattr(subprocess, "Popen", start)
    background = BackgroundReading(tmp_path)
    assert background.start()
    assert background.start()
    assert len(started) == 1
    assert os.getpriority(os.PRIO_PROCESS, started[0].pid) == reading.NICENESS
    background.stop()
    assert started[0].poll() is not None


def test_who_lacks_the_extra_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "find_spec", lambda name: None)
    assert not BackgroundReading(tmp_path).start()
    assert "ocr" in (advice(tmp_path) or "")
    assert advice(tmp_path) is None


def test_add_says_that_text_is_read_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[bool] = []
    monkeypatch.setenv("HASSE_OCR", "true")

    def start(_: BackgroundReading, detached: bool = False) -> bool:
        started.append(detached)
        return True

    monkeypatch.setattr(BackgroundReading, "start", start)
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    picture(1).save(pictures / "a.png")
    command = ("add", pictures, "--library", tmp_path / "library")
    added = hasse(*command, "--model", tiny_checkpoint(tmp_path / "model"))
    assert "read in the background" in added.err
    assert "background" not in hasse(*command).err
    assert started == [True]
