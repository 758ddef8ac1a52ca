"""Importing OpenVINO: nothing is sent, and nothing is written into the home of the user."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

_IMPORT = """
import sys
from urllib import request

def refuse(*_args, **_more):
    print("something was sent")

request.urlopen = refuse
from hasse.models.encoders.compiled_network import import_openvino

print(import_openvino().Core().available_devices[:1])
print(any(name.startswith("openvino_telemetry.") for name in sys.modules))
"""


def test_openvino_is_imported_without_its_telemetry(tmp_path: Path) -> None:
    if find_spec("openvino") is None:  # `importorskip` would import it with its telemetry
        pytest.skip("OpenVINO is not installed")
    quiet = {name: value for name, value in os.environ.items() if name != "CI"}
    ran = subprocess.run(
        [sys.executable, "-c", _IMPORT],
        check=False,
        capture_output=True,
        text=True,
        env=quiet | {"HOME": str(tmp_path)},
    )
    assert ran.stdout == "['CPU']\nFalse\n", ran.stderr
    assert not list(tmp_path.iterdir())
