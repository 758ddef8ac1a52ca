"""Pictures encoded without torch: as torch does, alone as among others, from what is kept."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors import safe_open
from safetensors.numpy import save_file
from torch import Tensor, nn

from hasse.lab.checkpoints import learned_model
from hasse.lab.checkpoints.learned_model import order_embedding_of
from hasse.lab.encoders import shapes
from hasse.lab.encoders.libraries.classifiers import ClassifierBackbone
from hasse.lab.encoders.order_embedding import OrderEmbedding
from hasse.models.checkpoints import checkpoint
from hasse.models.checkpoints.checkpoint import BASE
from hasse.models.checkpoints.model_folder import CONFIG, SUMS, WEIGHTS, CheckpointError
from hasse.models.checkpoints.named_models import pretrained
from hasse.models.checkpoints.trained_model import BACKBONE, PICTURES
from hasse.models.checkpoints.weights import WeightDtype
from hasse.models.encoders.model_config import ModelConfig
from hasse.models.encoders.regions import REGIONS
from hasse.models.images.preprocessing import Preprocessing
from hasse.models.networks.network import Runtime
from hasse.models.picture_model import PictureModel
from hasse.models.vocabulary import Vocabulary
from tests.models.networks.graphs import small_network
from tests.tiny import WORDS, seal, tiny_checkpoint

# OpenVINO computes in bfloat16, of 8 binary digits, where the processor has it.
TOLERANCE = 0.02
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
        patch.setattr(shapes, "build_backbone", lambda name: ClassifierBackbone(name, Toy()))
        for pooling, shape in SHAPES.items():
            looks = Preprocessing(resize=72, crop=64, crops=10 if pooling == "average" else 1)
            sizes: dict[str, Any] = {"dimension": 16, "word_dimension": 8, "backbone": NETWORK}
            config = ModelConfig(**sizes | {"image_pooling": pooling} | shape)
            model = OrderEmbedding(config, Vocabulary(WORDS), looks)
            if model.hubness is not None:
                images, captions = model.to_points(torch.rand(2, 9, 16))
                model.hubness.fit(images, captions, inverse_temperature=30.0)
            learned_model.save(root / pooling, model.eval(), pooling, {})
        yield {pooling: root / pooling for pooling in SHAPES}


def encoder(folder: Path, runtime: Runtime = "openvino") -> PictureModel:
    model = checkpoint.load(folder, runtime=runtime).model
    assert isinstance(model, PictureModel)
    return model


def pictures(count: int) -> list[Image.Image]:
    noise = np.random.default_rng(0).integers(0, 255, (count, 9, 12, 3), np.uint8)
    return [Image.fromarray(pixels).resize((120, 90)) for pixels in noise]


@pytest.mark.parametrize("pooling", SHAPES)
def test_points_and_features_are_those_of_torch(folders: Mapping[str, Path], pooling: str) -> None:
    model = encoder(folders[pooling], "onnxruntime")
    torched = learned_model.load(folders[pooling]).model
    np.testing.assert_allclose(
        model.encode_images(pictures(3)), torched.encode_images(pictures(3)), atol=1e-5
    )
    np.testing.assert_allclose(model.encode_captions(["a dog"]), torched.encode_captions(["a dog"]))
    rows = (REGIONS,) if pooling == "regions" else ()
    features = np.random.default_rng(0).random((5, *rows, FEATURES), np.float32)
    if pooling != "max":
        found = model.encode_features(features)
        np.testing.assert_allclose(found, torched.encode_features(features), atol=1e-5)


def test_cells_of_a_picture_of_any_size_are_those_of_torch(folders: Mapping[str, Path]) -> None:
    model, torched = (
        encoder(folders["regions"], "onnxruntime"),
        order_embedding_of(learned_model.load(folders["regions"])),
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


@pytest.mark.parametrize("dtype", get_args(WeightDtype))
def test_network_reads_its_weights_of_any_type_from_those_of_the_model(
    folders: Mapping[str, Path], dtype: WeightDtype, tmp_path: Path
) -> None:
    whole = order_embedding_of(learned_model.load(folders["regions"], to_learn=True))
    learned_model.save(tmp_path, whole, "toy", {}, dtype=dtype)
    assert (tmp_path / PICTURES).stat().st_size < 10_000
    expected = learned_model.load(tmp_path).model.encode_images(pictures(2))
    runtimes: tuple[Runtime, ...] = ("openvino", "onnxruntime")
    for runtime in runtimes:
        points = encoder(tmp_path, runtime).encode_images(pictures(2))
        np.testing.assert_allclose(points, expected, atol=TOLERANCE)


def test_folder_of_an_earlier_version_encodes_pictures_once_its_network_is_exported(
    folders: Mapping[str, Path], tmp_path: Path
) -> None:
    folder = tmp_path / "earlier"
    shutil.copytree(folders["average"], folder)
    (folder / PICTURES).unlink()
    sums = (folder / SUMS).read_text().splitlines()
    (folder / SUMS).write_text("\n".join(line for line in sums if PICTURES not in line) + "\n")
    captions = checkpoint.load(folder, with_pictures=False)
    assert captions.model.encode_captions(["a dog"]).any()
    with pytest.raises(CheckpointError, match=f"'hasse lab model export {folder}' .*lab"):
        checkpoint.load(folder)
    assert learned_model.export(folder)
    exported = checkpoint.load(folder)
    assert exported.fingerprint == captions.fingerprint
    np.testing.assert_array_equal(
        exported.model.encode_images(pictures(2)),
        encoder(folders["average"]).encode_images(pictures(2)),
    )


def test_folder_without_any_network_of_pictures_is_refused(
    folders: Mapping[str, Path], tmp_path: Path
) -> None:
    folder = tmp_path / "half"
    shutil.copytree(folders["average"], folder)
    (folder / PICTURES).unlink()
    with safe_open(folder / WEIGHTS, "numpy") as file:
        kept = {key: file.get_tensor(key) for key in file.keys() if BACKBONE not in key}  # noqa: SIM118
    save_file(kept, folder / WEIGHTS)
    seal(folder)
    with pytest.raises(CheckpointError, match="knows no pictures: it has neither"):
        checkpoint.load(folder)


def test_network_with_other_inputs_is_refused(folders: Mapping[str, Path], tmp_path: Path) -> None:
    folder = tmp_path / "other"
    shutil.copytree(folders["average"], folder)
    (folder / PICTURES).write_bytes(small_network("image"))
    seal(folder)
    with pytest.raises(CheckpointError, match="from image to features, not from pixels to"):
        checkpoint.load(folder)


@pytest.mark.parametrize("damage", [b"", b"no network"])
def test_damaged_network_is_refused_by_its_name(
    folders: Mapping[str, Path], damage: bytes, tmp_path: Path
) -> None:
    folder = tmp_path / "damaged"
    shutil.copytree(folders["average"], folder)
    (folder / PICTURES).write_bytes(damage)
    with pytest.raises(CheckpointError, match=r"pictures\.onnx is not what SHA256SUMS says"):
        checkpoint.load(folder)


def test_network_of_another_version_of_the_package_is_refused(
    folders: Mapping[str, Path], tmp_path: Path
) -> None:
    folder = tmp_path / "base"
    shutil.copytree(pretrained("photographs") / BASE, folder)
    config = json.loads((folder / CONFIG).read_bytes())
    (folder / CONFIG).write_text(json.dumps(config | {"network": "another"}))
    seal(folder)
    with pytest.raises(CheckpointError, match="another timm/tf_efficientnet_lite2 than the one"):
        checkpoint.load(folder)


def test_model_whose_weights_are_emptied_in_place_goes_on_encoding(tmp_path: Path) -> None:
    folder = tiny_checkpoint(tmp_path / "model")
    model = checkpoint.load(folder).model
    (folder / "model.safetensors").write_bytes(b"")  # the same file, which may have been mapped
    assert np.isfinite(model.encode_images([Image.new("RGB", (40, 40), "red")])).all()
