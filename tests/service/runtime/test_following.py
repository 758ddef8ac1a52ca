"""The process that keeps an index in step with folders beside a service."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hasse.index.store import Index
from hasse.models.encoders.names import LITE
from hasse.service.app import create_app
from hasse.service.core.follower_state import FollowerState
from hasse.service.runtime.following import following
from hasse.service.settings import Settings
from tests.service.client import Client
from tests.service.collection import IMAGES, make_collection, png
from tests.service.writing.folders.folder import remember

PARENT = """
import multiprocessing, os, sys
from pathlib import Path
from hasse.service.runtime.following import following
from hasse.service.settings import Settings

if __name__ == "__main__":
    with following(Settings(library=Path(sys.argv[1]), device="cpu")):
        print(multiprocessing.active_children()[0].pid, flush=True)
        sys.stdin.read()
        os._exit(0)  # as if it was killed: nothing is cleared up
"""


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.slow
def test_following_takes_new_pictures_and_ends_with_its_parent(tmp_path: Path) -> None:
    index, folder = make_collection(tmp_path, backbone=LITE), tmp_path / "followed"
    folder.mkdir()
    with Index.open(index, threads=1) as opened:
        remember(opened, folder)
    (folder / "beach.png").write_bytes(png(50))
    # Its own folder: Python would take the folder `index` beside a program for a package.
    program = tmp_path / "program" / "parent.py"
    program.parent.mkdir()
    program.write_text(PARENT)
    with subprocess.Popen(
        [sys.executable, program, index],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        child = Path("/proc", parent.stdout.readline().strip())
        with Index.open(index, threads=1) as reader:

            def has_new() -> bool:
                reader.refresh()
                return reader.info().images == IMAGES + 1

            until(has_new)
        assert child.exists()
        parent.stdin.close()
        parent.wait()
    until(lambda: not child.exists() or "(zombie)" in (child / "status").read_text())


def end_at_once(settings: Settings) -> None:
    sys.exit(3)


@pytest.mark.slow
def test_following_starts_a_follower_that_ended_again_and_shows_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    library = make_collection(tmp_path)
    settings = Settings(library=library, device="cpu")
    with following(settings, end_at_once):  # there is nothing to follow
        assert FollowerState.read() is None
    with Index.open(library, threads=1) as opened:
        remember(opened, tmp_path)
    with following(settings.model_copy(update={"follow": False}), end_at_once):
        assert FollowerState.read() is None
    with following(settings, end_at_once):
        until(lambda: (state := FollowerState.read()) is not None and state.restarts >= 2)
    assert FollowerState.read() is None
    assert "follower ended" in caplog.text


def test_readyz_and_metrics_show_a_follower_that_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HASSE_FOLLOWER_STATE", str(tmp_path / "state.json"))
    FollowerState(True, 0).write()
    with Client(create_app(Settings(library=make_collection(tmp_path), device="cpu"))) as client:
        assert client.get("/readyz").json()["checks"]["following"] == "ok"
        FollowerState(False, 4).write()
        metrics = client.get("/metrics").text
        assert "hasse_following 0.0" in metrics
        assert "hasse_follower_restarts 4.0" in metrics
