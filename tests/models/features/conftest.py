from __future__ import annotations

import pytest
import torch

from hasse.models.encoders.backbone import Backbone
from hasse.models.encoders.registry import build_backbone


@pytest.fixture(scope="module")
def backbone() -> Backbone:
    torch.manual_seed(0)
    return build_backbone("torchvision/shufflenet_v2_x0_5").eval()
