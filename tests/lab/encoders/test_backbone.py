"""Any torchvision network becomes features, whatever its classifier looks like."""

from __future__ import annotations

import copy
import pickle
import re
from pathlib import Path
from typing import Any

import pytest
import torch
import torchvision
from safetensors.torch import load_file, save_file
from torch import nn

from hasse.lab.encoders.registry import build_backbone
from hasse.models.errors import BackboneError

LIBRARY = "torchvision/"
NAME = "shufflenet_v2_x0_5"
SMALL = LIBRARY + NAME

WIDTHS = {
    "alexnet": 4096,
    "convnext_tiny": 768,
    "densenet121": 1024,
    "efficientnet_b0": 1280,
    "googlenet": 1024,
    "inception_v3": 2048,
    "mnasnet0_5": 1280,
    "mobilenet_v2": 1280,
    "mobilenet_v3_small": 1024,
    "regnet_x_400mf": 400,
    "resnet18": 512,
    "resnet50": 2048,
    "shufflenet_v2_x0_5": 1024,
    "shufflenet_v2_x1_0": 1024,
    "squeezenet1_1": 512,
    "swin_t": 768,
    "vgg19": 4096,
    "vit_b_16": 768,
}


def without_initialisation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip the drawing of random weights, which is most of the time to build a large network."""
    for name in (
        "trunc_normal_",
        "normal_",
        "kaiming_normal_",
        "kaiming_uniform_",
        "xavier_uniform_",
        "uniform_",
    ):
        monkeypatch.setattr(nn.init, name, lambda tensor, *_, **__: tensor)


@pytest.mark.parametrize("name", WIDTHS)
def test_a_network_gives_as_many_features_as_it_says(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_initialisation(monkeypatch)
    backbone = build_backbone(LIBRARY + name).eval()
    assert backbone.feature_dimension == WIDTHS[name]
    side = {"vit_b_16": 224, "swin_t": 224, "inception_v3": 96}.get(name, 64)
    with torch.inference_mode():
        assert backbone(torch.zeros(1, 3, side, side)).shape == (1, WIDTHS[name])


# Their published weights were learned on pictures that were scaled otherwise.
RESCALED = {"transform_input": True, "aux_logits": False, "init_weights": False}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        *((name, {}) for name in ("mobilenet_v2", "resnet18", "densenet121", "squeezenet1_1")),
        ("googlenet", RESCALED),
    ],
)
def test_features_are_what_the_classifier_read(
    name: str, options: dict[str, Any], tmp_path: Path
) -> None:
    torch.manual_seed(0)
    whole = torchvision.models.get_model(name, weights=None, **options).eval()
    save_file(whole.state_dict(), tmp_path / "w.safetensors")
    read: list[torch.Tensor] = []
    head = getattr(whole, "fc", None) or whole.classifier
    head.register_forward_pre_hook(lambda _, inputs: read.append(inputs[0]))
    pixels = torch.randn(2, 3, 64, 64)
    backbone = build_backbone(LIBRARY + name, tmp_path / "w.safetensors").eval()
    with torch.inference_mode():
        whole(pixels)
        pooled = read[0].mean((2, 3)) if read[0].ndim == 4 else read[0]
        torch.testing.assert_close(backbone(pixels), pooled, rtol=1e-4, atol=1e-5)


def test_a_vgg_keeps_fc7_and_its_relu(monkeypatch: pytest.MonkeyPatch) -> None:
    without_initialisation(monkeypatch)
    fc7, relu = list(
        build_backbone("torchvision/vgg19").network.get_submodule("classifier").children()
    )[-2:]
    assert isinstance(relu, nn.ReLU)
    assert isinstance(fc7, nn.Linear)
    assert fc7.out_features == 4096


@pytest.mark.parametrize("name", [NAME, "mnasnet0_5", "mobilenet_v3_small"])
def test_the_state_survives_safetensors(name: str, tmp_path: Path) -> None:
    one, other = build_backbone(LIBRARY + name).eval(), build_backbone(LIBRARY + name).eval()
    assert one.fingerprint() != other.fingerprint()
    save_file(one.state_dict(), tmp_path / "w.safetensors")
    other.load_state_dict(load_file(tmp_path / "w.safetensors"))
    assert one.fingerprint() == other.fingerprint()
    pixels = torch.randn(1, 3, 64, 64)
    with torch.inference_mode():
        torch.testing.assert_close(one(pixels), other(pixels), rtol=0, atol=0)


@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
def test_weights_come_from_torchs_file_or_from_safetensors_whole_or_cut(
    suffix: str, tmp_path: Path
) -> None:
    whole = torchvision.models.get_model(NAME, weights=None)
    state = whole.state_dict()
    cut = {key: value for key, value in state.items() if not key.startswith("fc.")}
    prints = set()
    for name, content in (("whole", state), ("cut", cut)):
        path = tmp_path / f"{name}{suffix}"
        if suffix == ".pth":
            torch.save(content, path)
        else:
            save_file(content, path)
        prints.add(build_backbone(SMALL, path).fingerprint())
    assert len(prints) == 1


def test_a_published_densenet_with_its_old_layer_names_loads(tmp_path: Path) -> None:
    state = torchvision.models.densenet121().state_dict()
    old = {
        re.sub(r"(denselayer\d+\.(?:norm|conv))(\d)", r"\1.\2", key): value
        for key, value in state.items()
    }
    assert old.keys() != state.keys()
    torch.save(old, tmp_path / "old.pth")
    torch.save(state, tmp_path / "new.pth")
    prints = {
        build_backbone("torchvision/densenet121", tmp_path / f"{n}.pth").fingerprint()
        for n in ("old", "new")
    }
    assert len(prints) == 1


@pytest.mark.parametrize(
    ("name", "side", "first"),
    [
        ("googlenet", "aux2.", "conv1.conv.weight"),
        ("inception_v3", "AuxLogits.", "Conv2d_1a_3x3.conv.weight"),
    ],
)
def test_a_published_network_loads_without_its_side_classifiers(
    name: str, side: str, first: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_initialisation(monkeypatch)
    whole = torchvision.models.get_model(name, aux_logits=True, init_weights=False).state_dict()
    assert any(key.startswith(side) for key in whole)
    torch.save(whole, tmp_path / "w.pth")
    loaded = build_backbone(LIBRARY + name, tmp_path / "w.pth").network.state_dict()
    torch.testing.assert_close(loaded[first], whole[first], equal_nan=True)


def test_weights_of_old_files_that_count_no_batches_load(tmp_path: Path) -> None:
    state = build_backbone(SMALL).network.state_dict()
    old = {key: value for key, value in state.items() if not key.endswith("batches_tracked")}
    assert len(old) < len(state)
    save_file(old, tmp_path / "w.safetensors")
    loaded = build_backbone(SMALL, tmp_path / "w.safetensors").network.state_dict()
    assert all(loaded[key].equal(value) for key, value in old.items())


def message(name: str, weights: Path | None = None) -> str:
    with pytest.raises(BackboneError) as caught:
        build_backbone(name, weights)
    return str(caught.value)


def test_an_unknown_network_is_refused_with_names_like_it() -> None:
    assert "resnet50" in message("torchvision/resnet5O")
    assert "no classification network 'fcn_resnet50'" in message("torchvision/fcn_resnet50")
    assert "there is alexnet, convnext_base" in message("torchvision/?"), (
        "all, where none is like it"
    )


def test_weights_of_another_network_are_refused_and_a_key_is_named(tmp_path: Path) -> None:
    save_file(
        build_backbone("torchvision/shufflenet_v2_x1_0").network.state_dict(),
        tmp_path / "w.safetensors",
    )
    said = message(SMALL, tmp_path / "w.safetensors")
    assert "does not hold weights of torchvision/shufflenet_v2_x0_5" in said
    assert "size mismatch for stage2" in said
    save_file({"x": torch.zeros(1)}, tmp_path / "x.safetensors")
    assert "is missing" in message(SMALL, tmp_path / "x.safetensors")


def test_weights_that_do_not_fit_are_refused_with_the_first_reason_and_the_number_of_others(
    tmp_path: Path,
) -> None:
    state = build_backbone(SMALL).network.state_dict()
    first, second = "conv1.0.weight", "conv1.1.bias"

    def said(**changed: torch.Tensor | None) -> str:
        content = {**state, **changed}
        kept = {key: value.clone() for key, value in content.items() if value is not None}
        save_file(kept, tmp_path / "w.safetensors")
        return message(SMALL, tmp_path / "w.safetensors").split("(", 1)[1].rsplit("):", 1)[0]

    nothing = torch.zeros(2)
    assert said(**{first: None}) == f"{first} is missing"
    assert said(other=nothing) == "other is not part of it"
    assert said(**{first: None}, other=nothing) == f"{first} is missing, and 1 more"
    assert said(**{second: nothing}).startswith(f"size mismatch for {second}")
    assert "., and" not in said(**{first: nothing, second: nothing}), "torch's own full stop"


def test_a_file_that_holds_no_weights_is_refused(tmp_path: Path) -> None:
    (tmp_path / "w.safetensors").write_bytes(b"nothing of the kind")
    (tmp_path / "w.pth").write_bytes(b"nothing of the kind")
    torch.save({"model": {}, "epoch": 3}, tmp_path / "run.pth")
    torch.save({0: torch.zeros(3)}, tmp_path / "layers.pth")
    (tmp_path / "a.txt").write_text("a dog 1\nein Hund\n")
    for name in ("w.safetensors", "w.pth", "a.txt"):
        assert "cannot be read as weights" in message(SMALL, tmp_path / name)
    for name in ("run.pth", "layers.pth"):
        assert "not a state dict" in message(SMALL, tmp_path / name)
    assert "there is no weights file" in message(SMALL, tmp_path / "nowhere.pth")


def test_weights_without_data_are_refused(tmp_path: Path) -> None:
    state = build_backbone(SMALL).network.state_dict()
    key = next(iter(state))
    torch.save({**state, key: state[key].to("meta")}, tmp_path / "w.pth")
    assert "meta tensor; no data" in message(SMALL, tmp_path / "w.pth")


def test_a_file_that_would_run_code_is_refused(tmp_path: Path) -> None:
    torch.save({"weight": Path("x")}, tmp_path / "w.pth")
    (tmp_path / "old.pth").write_bytes(pickle.dumps({"weight": print}, protocol=4))
    assert "it holds other things than tensors" in message(SMALL, tmp_path / "old.pth")
    said = message(SMALL, tmp_path / "w.pth")
    assert "cannot be read as weights (it holds other things than tensors)" in said
    assert "weights_only" not in said, "how to run it nevertheless"


def test_a_frozen_backbone_never_changes() -> None:
    model = nn.Sequential(build_backbone(SMALL).freeze(), nn.Linear(1024, 4))
    model.train()
    before = copy.deepcopy(model.state_dict())
    model(torch.randn(4, 3, 32, 32)).sum().backward()
    torch.optim.SGD([p for p in model.parameters() if p.requires_grad], 0.1).step()
    for key, value in model.state_dict().items():
        assert torch.equal(value, before[key]) != key.startswith("1."), key


def test_an_unfrozen_backbone_learns() -> None:
    backbone = build_backbone(SMALL).train()
    backbone(torch.randn(4, 3, 32, 32)).sum().backward()
    assert all(parameter.grad is not None for parameter in backbone.parameters())
    assert backbone.get_buffer("network.conv1.1.num_batches_tracked") == 1


def test_require_side_refuses_a_size_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    without_initialisation(monkeypatch)
    backbone = build_backbone("torchvision/vit_b_16")
    with pytest.raises(
        BackboneError, match=r"torchvision/vit_b_16 cannot take pictures of 64 x 64 pixels"
    ):
        backbone.require_side(64)
    assert backbone.training
    with pytest.raises(
        BackboneError, match=r"torchvision/squeezenet1_1 cannot take pictures of 7 x 7 pixels"
    ):
        build_backbone("torchvision/squeezenet1_1").require_side(7)


def test_require_side_leaves_the_network_as_it_was() -> None:
    small = build_backbone(SMALL)
    before = copy.deepcopy(small.state_dict())
    small.require_side(32)
    assert small.training
    assert all(value.equal(before[key]) for key, value in small.state_dict().items())


@pytest.mark.parametrize(
    "name", ["shufflenet_v2_x0_5", "mobilenet_v3_small", "densenet121", "squeezenet1_1"]
)
def test_a_copy_for_inference_computes_the_same(name: str) -> None:
    backbone = build_backbone(LIBRARY + name)
    for layer in backbone.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.get_buffer("running_mean").normal_()
            layer.get_buffer("running_var").uniform_(0.5, 2)
    pixels = torch.randn(2, 3, 64, 64)
    before = backbone.fingerprint()
    copied = backbone.for_inference()
    with torch.inference_mode():
        expected = backbone.eval()(pixels)
        torch.testing.assert_close(copied(pixels), expected, rtol=1e-3, atol=1e-5)
    assert backbone.fingerprint() == copied.fingerprint() == before
    assert not backbone.frozen
    assert not any(parameter.requires_grad for parameter in copied.parameters())


def test_the_fingerprint_sees_the_name_and_every_weight_and_no_counter() -> None:
    backbone = build_backbone(SMALL)
    first = backbone.fingerprint()
    backbone.get_buffer("network.conv1.1.num_batches_tracked").add_(1)
    assert backbone.fingerprint() == first
    backbone.get_buffer("network.conv1.1.running_mean")[0] += 1
    assert backbone.fingerprint() != first
    renamed = copy.deepcopy(backbone)
    renamed.name = "another"
    assert renamed.fingerprint() != backbone.fingerprint()


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2", "mnasnet0_5"])
def test_keep_grid_gives_the_features_of_every_cell(name: str) -> None:
    torch.manual_seed(0)
    pixels = torch.rand(2, 3, 64, 96)
    averaged = build_backbone(LIBRARY + name).eval()
    assert averaged.has_grid()
    kept = copy.deepcopy(averaged).keep_grid()
    assert kept.keep_grid() is kept
    assert kept.has_grid()
    cells = kept(pixels)
    assert cells.shape == (2, 2 * 3, averaged.feature_dimension)
    torch.testing.assert_close(cells.mean(1), averaged(pixels))


@pytest.mark.parametrize("name", ["shufflenet_v2_x0_5", "mobilenet_v3_small", "vgg11"])
def test_keep_grid_without_a_grid_is_refused(name: str) -> None:
    network = build_backbone(LIBRARY + name)
    assert not network.has_grid()
    with pytest.raises(BackboneError, match="does not end in the average of a grid"):
        network.keep_grid()
