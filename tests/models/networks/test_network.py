"""Networks by both runtimes: same outputs, whatever else runs; clear refusals; no telemetry."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from hasse.models.networks import network, onnxruntime_network
from hasse.models.networks.network import Array, NetworkError, Runtime, choose_runtime, open_network
from tests.models.networks.graphs import FEATURES, picture, small_network

RUNTIMES: tuple[Runtime, ...] = ("openvino", "onnxruntime")
SIDES = ((8, 8), (9, 12), (13, 7))


def without(monkeypatch: pytest.MonkeyPatch, *missing: str) -> None:
    """Let packages look as if they were not installed."""

    def find(name: str) -> object | None:
        return None if name in missing else find_spec(name)

    monkeypatch.setattr(network, "find_spec", find)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_network_by_any_runtime_names_its_inputs_and_outputs(runtime: Runtime) -> None:
    opened = open_network(small_network(), runtime)
    assert opened.inputs == {"pixels": (1, 3, None, None)}
    assert opened.outputs == {"features": (None, FEATURES)}
    assert opened.device == "cpu"


@pytest.mark.parametrize(("height", "width"), SIDES)
def test_network_by_both_runtimes_has_the_same_features(height: int, width: int) -> None:
    pixels = picture(height, width)
    by_openvino, by_onnx = (
        open_network(small_network(), runtime).run({"pixels": pixels})["features"]
        for runtime in RUNTIMES
    )
    cells = -(-height // 2) * -(-width // 2)
    assert by_openvino.shape == by_onnx.shape == (cells, FEATURES)
    # OpenVINO may compute in bfloat16, of 8 binary digits.
    np.testing.assert_allclose(by_openvino, by_onnx, rtol=0.02, atol=0.1)


DROPPED_ELSEWHERE = """
import gc, signal, sys
from threading import Thread
from hasse.models.networks.network import open_network
from tests.models.networks.graphs import picture, small_network

network = [open_network(small_network(), sys.argv[1])]
network[0].run({"pixels": picture(8, 8)})
thread = Thread(target=lambda: (network.clear(), gc.collect()))
thread.start()
thread.join()
try:
    signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_network_dropped_by_another_thread_leaves_signals_to_the_first(runtime: Runtime) -> None:
    done = subprocess.run(
        [sys.executable, "-c", DROPPED_ELSEWHERE, runtime],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "interrupted\n"), done.stderr


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_network_run_by_threads_has_the_bits_of_one_thread(runtime: Runtime) -> None:
    opened = open_network(small_network(), runtime)
    pictures = [picture(*SIDES[seed % 3], seed) for seed in range(24)]
    alone = [opened.run({"pixels": pixels})["features"] for pixels in pictures]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda p: opened.run({"pixels": p})["features"], pictures))
    for expected, features in zip(alone, together, strict=True):
        np.testing.assert_array_equal(features, expected)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_network_with_wrong_inputs_names_those_it_takes(runtime: Runtime) -> None:
    opened = open_network(small_network(), runtime)
    wrong: tuple[dict[str, Array], ...] = (
        {"image": picture(8, 8)},
        {"pixels": picture(8, 8)[0]},
        {},
    )
    for inputs in wrong:
        with pytest.raises(NetworkError, match=r"takes pixels \(1, 3, None, None\), not "):
            opened.run(inputs)
    assert opened.run({"pixels": picture(8, 8)})["features"].shape == (16, FEATURES)


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("content", [b"", b"no network", small_network()[:-200]])
def test_network_from_a_damaged_file_is_refused_by_its_name(
    runtime: Runtime, content: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "pictures.onnx"
    path.write_bytes(content)
    with pytest.raises(NetworkError, match=r"pictures\.onnx is not a network"):
        open_network(path, runtime)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_network_by_a_runtime_that_is_missing_says_what_to_install(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    without(monkeypatch, runtime)
    with pytest.raises(NetworkError, match=f"{runtime}, which is not installed: pip install"):
        open_network(small_network(), runtime)


def test_network_without_any_runtime_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, *RUNTIMES)
    with pytest.raises(NetworkError, match="pip install openvino"):
        open_network(small_network())


@pytest.mark.parametrize(
    ("machine", "missing", "chosen"),
    [
        ("x86_64", (), "openvino"),
        ("AMD64", (), "openvino"),
        ("arm64", (), "onnxruntime"),
        ("aarch64", ("onnxruntime",), "openvino"),
        ("x86_64", ("openvino",), "onnxruntime"),
    ],
)
def test_choose_runtime_takes_the_fastest_that_is_installed(
    machine: str, missing: tuple[str, ...], chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    without(monkeypatch, *missing)
    assert choose_runtime("auto") == chosen


@pytest.mark.parametrize(("device", "provider"), [("cuda:1", "CUDA"), ("mps", "CoreML")])
def test_choose_runtime_takes_onnx_runtime_only_for_a_device_that_it_can_use(
    device: str, provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    assert choose_runtime("auto", device) == "openvino"

    class Runtime:
        @staticmethod
        def get_available_providers() -> list[str]:
            return [f"{provider}ExecutionProvider", "CPUExecutionProvider"]

    monkeypatch.setattr(onnxruntime_network, "import_onnxruntime", Runtime)
    assert choose_runtime("auto", device) == "onnxruntime"


_IMPORT = """
import os, sys
from urllib import request

def refuse(*_args, **_more):
    print("something was sent")

request.urlopen = refuse
from hasse.models.networks.network import open_network
from tests.models.networks.graphs import picture, small_network

opened = open_network(small_network(), sys.argv[1])
print(len(opened.run({"pixels": picture(8, 8)})["features"]))
print(any(name.startswith("openvino_telemetry.") for name in sys.modules))
print("torch" in sys.modules, "onnxruntime" in sys.modules, os.environ["ORT_DISABLE_TELEMETRY"])
"""


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_network_is_run_without_telemetry_and_without_torch(
    runtime: Runtime, tmp_path: Path
) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "CI"}
    ran = subprocess.run(
        [sys.executable, "-c", _IMPORT, runtime],
        check=False,
        capture_output=True,
        text=True,
        env=environment | {"HOME": str(tmp_path), "ORT_DISABLE_TELEMETRY": "0"},
    )
    by_onnx = runtime == "onnxruntime"
    expected = f"16\nFalse\nFalse {by_onnx} {'1' if by_onnx else '0'}\n"
    assert ran.stdout == expected, ran.stderr
    assert not list(tmp_path.iterdir())
