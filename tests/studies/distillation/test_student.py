"""What the networks of a distillation see, and what their layers hold."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from hasse.lab.encoders.backbone import Backbone
from hasse.lab.encoders.registry import build_backbone
from hasse.models.errors import BackboneError
from hasse.studies.distillation.student import Student, Teacher, layers_of
from tests.studies.distillation.teaching import build_like


@pytest.mark.parametrize(
    ("name", "channels"),
    [
        ("torchvision/mobilenet_v2", [16, 24, 32, 96, 1280]),
        ("torchvision/mnasnet1_0", [16, 24, 40, 96, 1280]),
        ("torchvision/resnet18", [64, 64, 128, 256, 512]),
        ("torchvision/googlenet", [64, 192, 480, 832, 1024]),
    ],
)
def test_layers_give_the_last_of_each_grid_and_see_what_the_network_sees(
    name: str, channels: list[int]
) -> None:
    torch.manual_seed(0)
    network = build_backbone(name).eval()
    pixels = torch.rand(2, 3, 64, 64)
    with torch.inference_mode():
        seen = network(pixels)
        grids = list(layers_of(network, 64).eval()(pixels).values())
    assert [grid.shape[1] for grid in grids] == channels
    assert [grid.shape[-1] for grid in grids] == [32, 16, 8, 4, 2]
    torch.testing.assert_close(grids[-1].mean((2, 3)), seen)


def test_a_network_whose_layers_are_looked_for_is_left_as_it_was() -> None:
    network = build_backbone("torchvision/mobilenet_v2").train()
    before = copy.deepcopy(network.state_dict())
    layers_of(network, 64)
    Student(network, [1280], 8, 64)
    assert network.training
    assert all(value.equal(before[key]) for key, value in network.state_dict().items())


def test_a_network_that_teaches_can_still_learn_and_be_asked_for_its_average(
    teacher: Backbone,
) -> None:
    network = build_like(teacher).train()
    Teacher(network, None, 64, torch.float32, "cpu")
    assert network.training
    assert not network.grid
    assert all(weight.requires_grad for weight in network.parameters())


def test_a_teacher_says_what_a_projection_makes_of_unit_features(teacher: Backbone) -> None:
    pixels = torch.rand(3, 3, 64, 64)
    projection = torch.randn(6, 1280)
    with torch.inference_mode():
        features = nn.functional.normalize(build_like(teacher)(pixels), dim=-1)
    for given, expected in ((None, features), (projection, features @ projection.T)):
        seen, grids = Teacher(build_like(teacher), given, 64, torch.float32, "cpu").look(pixels)
        torch.testing.assert_close(seen.mean((2, 3)), expected, atol=1e-4, rtol=1e-3)
        assert len(grids) == 5


def test_where_a_teacher_sees_nothing_it_says_nothing(teacher: Backbone) -> None:
    blind = build_like(teacher)
    normalised = [layer for layer in blind.modules() if isinstance(layer, nn.BatchNorm2d)]
    for values in (normalised[-1].weight, normalised[-1].bias):
        nn.init.zeros_(values)
    seen, _ = Teacher(blind, None, 64, torch.float32, "cpu").look(torch.rand(2, 3, 64, 64))
    assert seen.count_nonzero() == 0


def test_what_is_seen_is_told_in_float32_where_layers_multiply_in_bfloat16(
    teacher: Backbone,
) -> None:
    pixels = torch.rand(2, 3, 64, 64)
    seeing = Teacher(build_like(teacher), None, 64, torch.bfloat16, "cpu")
    wanted, held = seeing.look(pixels)
    pupil = Student(build_backbone("torchvision/mobilenet_v2"), seeing.channels, seeing.axes, 64)
    with torch.autocast("cpu", torch.bfloat16):
        found, hints = pupil(pixels)
    assert {wanted.dtype, found.dtype} == {torch.float32}
    assert {each.dtype for each in (*held, *hints)} == {torch.bfloat16}


def test_what_all_pictures_of_a_batch_have_in_common_says_nothing() -> None:
    pupil = Student(build_backbone("torchvision/mobilenet_v2"), [1280], 8, 64).train()
    for weights in pupil.head.parameters():
        nn.init.normal_(weights)
    seen, _ = pupil(torch.rand(4, 3, 64, 64))
    torch.testing.assert_close(seen.mean((0, 2, 3)), pupil.head.bias, atol=1e-3, rtol=0)


def test_a_network_without_a_grid_cannot_teach() -> None:
    with pytest.raises(BackboneError, match="average of a grid"):
        layers_of(build_backbone("torchvision/shufflenet_v2_x0_5"), 64)
