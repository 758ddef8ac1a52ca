"""Pictures in a terminal."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image

from hasse.models.images.limits import PictureError
from hasse.service.cli.terminal.errors import CommandError
from hasse.service.cli.terminal.preview import preview, protocol_of
from tests.service.collection import picture


@pytest.mark.parametrize(
    ("environment", "protocol"),
    [
        ({"TERM": "xterm-kitty"}, "kitty"),
        ({"TERM": "xterm", "KITTY_WINDOW_ID": "1"}, "kitty"),
        ({"TERM_PROGRAM": "ghostty"}, "kitty"),
        ({"TERM_PROGRAM": "iTerm.app"}, "iterm"),
        ({"TERM_PROGRAM": "WezTerm", "TERM": "xterm-256color"}, "iterm"),
    ],
)
def test_protocol_of_a_terminal_that_shows_pictures_is_known(
    environment: Mapping[str, str], protocol: str
) -> None:
    assert protocol_of(environment) == protocol


@pytest.mark.parametrize("environment", [{}, {"TERM": "xterm"}, {"TERM_PROGRAM": "vscode"}])
def test_protocol_of_another_terminal_is_an_error(environment: Mapping[str, str]) -> None:
    with pytest.raises(CommandError, match="--open"):
        protocol_of(environment)


def test_preview_carries_a_small_version_of_the_picture(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    picture(1, (900, 600)).save(path)
    kitty, iterm = preview(path, "kitty", 10**7), preview(path, "iterm", 10**7)
    chunks = re.findall(r"\x1b_G(?:a=T,f=100,)?m=([01]);([^\x1b]*)\x1b\\", kitty)
    assert [more for more, _ in chunks] == ["1"] * (len(chunks) - 1) + ["0"]
    assert max(len(data) for _, data in chunks) <= 4096
    sent = base64.b64decode("".join(data for _, data in chunks))
    assert Image.open(BytesIO(sent)).size == (240, 160)
    size, data = re.findall(r"size=(\d+):(.*)\a", iterm)[0]
    assert base64.b64decode(data) == sent
    assert int(size) == len(sent)
    with pytest.raises(PictureError):
        preview(path, "kitty", 100)
