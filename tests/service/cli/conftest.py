from __future__ import annotations

from pathlib import Path

import pytest

from tests.service.cli.shapes import COLOURS, SHAPES, done, draw
from tests.service.cli.shell import TINY_TRAINING, hasse


@pytest.fixture(autouse=True)
def no_own_library(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keep commands from the library of whoever runs the tests."""
    monkeypatch.setenv("HASSE_HOME", str(tmp_path_factory.getbasetemp() / "own"))
    monkeypatch.delenv("HASSE_LIBRARY", raising=False)


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with pictures, and all that the first commands make of them."""
    home = tmp_path_factory.mktemp("home")
    pictures = home / "pictures"
    for at in range(3):
        folder = pictures / str(at)
        folder.mkdir(parents=True)
        for colour in COLOURS:
            for shape in SHAPES:
                draw(folder, colour, shape)
    # A picture that is cut short: its header is good, so that only decoding finds out.
    whole = (pictures / "2" / "red-circle.png").read_bytes()
    (pictures / "2" / "red-circle.png").write_bytes(whole[:-60])
    done(hasse("lab data", "import", "folder", pictures, "--out", home / "data"))
    done(hasse("lab train", home / "data", "--out", home / "model", *TINY_TRAINING, "--epochs", 1))
    built = done(
        hasse(
            "lab index build",
            home / "data",
            "--model",
            home / "model",
            "--library",
            home / "index",
        )
    )
    assert "red-circle.png" in built.err, "the damaged picture is named"
    return home
