"""Pictures encoded without torch: as torch does, alone as among others, from what is kept."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from hasse.lab.encoders import registry
from hasse.lab.encoders.backbone import Backbone
from hasse.lab.encoders.libraries.classifiers import ClassifierBackbone
from hasse.lab.encoders.order_embedding import OrderEmbedding
from hasse.models.checkpoints import checkpoint, exported_networks
from hasse.models.checkpoints.model_folder import SUMS, WEIGHTS, ModelKind
from hasse.models.encoders import compiled_network
from hasse.models.encoders.compiled_network import CompiledNetwork, ExportedNetwork
from hasse.models.encoders.model_config import ModelConfig
from hasse.models.encoders.regions import REGIONS
from hasse.models.errors import BackboneError
from hasse.models.images.preprocessing import Preprocessing
from hasse.models.picture_model import PictureModel
from hasse.models.vocabulary import Vocabulary
from tests.tiny import WORDS

if find_spec("openvino") is None:  # `importorskip` would import it with its telemetry
    pytest.skip("OpenVINO is not installed", allow_module_level=True)

NETWORK, FEATURES = "torchvision/toy", 24
SHAPES: dict[str, dict[str, Any]] = {
    "average": {},
    "regions": {"ensemble": 2, "hubness": 3},
    "max": {"score": "cosine"},
}


class Toy(nn.Module):
    """A classification network of two convolutions, whose cells have 8 x 8 pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU6(),
            nn.Conv2d(8, FEATURES, 4, stride=4),
        )
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(FEATURES, 3)

    def forward(self, pixels: Tensor) -> Tensor:
        found: Tensor = self.classifier(self.avgpool(self.features(pixels)).flatten(1))
        return found


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Path]]:
    """Return the folder of a checkpoint of each pooling, in a home of its own."""
    root = tmp_path_factory.mktemp("pictures")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HASSE_HOME", str(root / "home"))
        patch.setattr(registry, "build_backbone", lambda name: ClassifierBackbone(name, Toy()))
        for pooling, shape in SHAPES.items():
            looks = Preprocessing(resize=72, crop=64, crops=10 if pooling == "average" else 1)
            sizes: dict[str, Any] = {"dimension": 16, "word_dimension": 8, "backbone": NETWORK}
            config = ModelConfig(**sizes | {"image_pooling": pooling} | shape)
            model = OrderEmbedding(config, Vocabulary(WORDS), looks)
            if model.hubness is not None:
                images, captions = model.to_points(torch.rand(2, 9, 16))
                model.hubness.fit(images, captions, inverse_temperature=30.0)
            checkpoint.save(root / pooling, model.eval(), pooling, {})
        yield {pooling: root / pooling for pooling in SHAPES}


def encoder(folder: Path) -> PictureModel:
    model = checkpoint.load(folder, runtime="openvino").model
    assert isinstance(model, PictureModel)
    return model


def pictures(count: int) -> list[Image.Image]:
    noise = np.random.default_rng(0).integers(0, 255, (count, 9, 12, 3), np.uint8)
    return [Image.fromarray(pixels).resize((120, 90)) for pixels in noise]


@pytest.mark.parametrize("pooling", SHAPES)
def test_points_and_features_are_those_of_torch(
    folders: Mapping[str, Path], monkeypatch: pytest.MonkeyPatch, pooling: str
) -> None:
    monkeypatch.setattr(CompiledNetwork, "precision", "f32")
    model, torched = encoder(folders[pooling]), checkpoint.load(folders[pooling]).model
    np.testing.assert_allclose(
        model.encode_images(pictures(3)), torched.encode_images(pictures(3)), atol=1e-5
    )
    np.testing.assert_allclose(model.encode_captions(["a dog"]), torched.encode_captions(["a dog"]))
    rows = (REGIONS,) if pooling == "regions" else ()
    features = np.random.default_rng(0).random((5, *rows, FEATURES), np.float32)
    if pooling != "max":
        found = model.encode_features(features)
        np.testing.assert_allclose(found, torched.encode_features(features), atol=1e-5)
    assert model.backbone.fingerprint() == torched.backbone.fingerprint()


def test_cells_of_a_picture_of_any_size_are_those_of_torch(
    folders: Mapping[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CompiledNetwork, "precision", "f32")
    model, torched = (
        encoder(folders["regions"]),
        checkpoint.load(folders["regions"]).order_embedding,
    )
    for side in (64, 128, 160):
        pixels = np.random.default_rng(0).random((1, 3, side, side), np.float32)
        expected = torched.cells(pixels)
        assert expected.shape == ((side // 8) ** 2, FEATURES)
        np.testing.assert_allclose(model.cells(pixels), expected, atol=1e-4)


def test_a_picture_has_the_same_bits_alone_among_others_and_in_any_thread(
    folders: Mapping[str, Path],
) -> None:
    model, shown = encoder(folders["regions"]), pictures(6)
    together = model.encode_images(shown)
    with ThreadPoolExecutor(3) as pool:
        alone = list(pool.map(lambda picture: model.encode_images([picture]), shown))
    np.testing.assert_array_equal(together, np.concatenate(alone))
    assert model.encode_images([]).shape == (0, 16)
    assert model.encode_pixels([]).shape == (0, 16)


def test_an_exported_network_is_read_and_a_damaged_one_made_anew(
    folders: Mapping[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = encoder(folders["average"]).encode_images(pictures(1))
    exports: list[str] = []
    export = compiled_network.export

    def counted(network: Backbone) -> ExportedNetwork | None:
        exports.append(network.name)
        return export(network)

    monkeypatch.setattr(compiled_network, "export", counted)
    kept = Path(os.environ["HASSE_HOME"], "networks", _fingerprint(folders), WEIGHTS)
    encoder(folders["average"])
    assert not exports
    kept.write_bytes(kept.read_bytes()[:-1])
    found = encoder(folders["average"]).encode_images(pictures(1))
    np.testing.assert_array_equal(found, expected)
    encoder(folders["average"])
    assert exports == [NETWORK]


def _fingerprint(folders: Mapping[str, Path]) -> str:
    return checkpoint.load(folders["average"], with_pictures=False).fingerprint


def test_a_network_that_cannot_be_kept_encodes_all_the_same(
    folders: Mapping[str, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setenv("HASSE_HOME", str(tmp_path))
    monkeypatch.setattr(ModelKind, "save", fail)
    assert encoder(folders["average"]).encode_images(pictures(1)).any()


def test_the_networks_used_least_lately_are_forgotten(
    folders: Mapping[str, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HASSE_HOME", str(tmp_path))
    for number in range(10):
        (tmp_path / "networks" / str(number)).mkdir(parents=True)
        (tmp_path / "networks" / str(number) / SUMS).touch()
        os.utime(tmp_path / "networks" / str(number) / SUMS, (number, number))
    encoder(folders["average"])
    left = {path.name for path in (tmp_path / "networks").iterdir()}
    assert left == {_fingerprint(folders), *map(str, range(3, 10))}


def test_torch_encodes_where_openvino_is_missing_or_cannot_run_the_network(
    folders: Mapping[str, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HASSE_HOME", str(tmp_path))
    monkeypatch.setattr(compiled_network, "export", lambda network: None)
    assert isinstance(checkpoint.load(folders["average"], runtime="auto").model, OrderEmbedding)
    monkeypatch.setattr(exported_networks, "is_installed", lambda: False)
    assert isinstance(checkpoint.load(folders["average"], runtime="auto").model, OrderEmbedding)
    with pytest.raises(BackboneError, match="pip install openvino"):
        checkpoint.load(folders["average"], runtime="openvino")
