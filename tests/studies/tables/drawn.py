"""A folder with a few captioned pictures, as a dataset and as features of a random network."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save_file

from hasse.lab.encoders.registry import build_backbone
from tests.service.cli.shell import hasse


def make(folder: Path, network: str, captions: Callable[[int], str], *options: object) -> None:
    """Write `data` and `features` of 30 pictures; `options` are further ones of the features."""
    pictures, weights = folder / "pictures", folder / "network.safetensors"
    pictures.mkdir()
    for number in range(30):
        colours = np.random.default_rng(number).integers(0, 256, (3, 4, 3), dtype=np.uint8)
        path = pictures / f"{number}.png"
        Image.fromarray(colours).resize((48, 48)).save(path)
        path.with_suffix(".txt").write_text(captions(number))
    torch.manual_seed(0)
    save_file(build_backbone(network).network.state_dict(), weights)
    chosen = ("--backbone", network, "--weights", weights, "--resize", 36, "--crop", 32, *options)
    for command in (
        ("lab data", "import", "folder", pictures, "--out", folder / "data"),
        ("lab features", folder / "data", *chosen, "--out", folder / "features"),
    ):
        assert hasse(*command).status == 0
