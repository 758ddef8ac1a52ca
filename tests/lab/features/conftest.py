from __future__ import annotations

import pytest
import torch

from hasse.lab.encoders.backbone import Backbone
from hasse.lab.encoders.registry import build_backbone
from tests.tiny import TINY


@pytest.fixture(scope="module")
def backbone() -> Backbone:
    torch.manual_seed(0)
    return build_backbone(TINY).eval()
