from __future__ import annotations

import pytest
import torch
from torch import nn

from hasse.lab.encoders.backbone import Backbone
from hasse.lab.encoders.registry import build_backbone
from tests.studies.distillation.teaching import Pixels, two_colours


@pytest.fixture(scope="module")
def teacher() -> Backbone:
    """Random weights, and batch statistics that keep what it sees from fading."""
    torch.manual_seed(0)
    network = build_backbone("torchvision/mobilenet_v2")
    for layer in network.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.momentum = None  # the average of all batches, of which there is one
    with torch.no_grad():
        network.train()(torch.rand(16, 3, 64, 64))
    return network.eval()


@pytest.fixture(scope="module")
def pixels() -> Pixels:
    return two_colours(48)
