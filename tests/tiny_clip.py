"""A tiny model of open_clip's with random weights, in a folder as the hub has them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import open_clip
import torch
from safetensors.torch import save_file

NAME = "open_clip/tiny"
MODEL: dict[str, Any] = {
    "embed_dim": 16,
    "vision_cfg": {"image_size": 32, "layers": 1, "width": 64, "patch_size": 8},
    "text_cfg": {
        "context_length": 12,
        "vocab_size": 49408,
        "width": 64,
        "heads": 1,
        "layers": 1,
    },
}


def tiny_clip(folder: Path, seed: int = 0, **changes: Any) -> Any:
    """Write the folder, and return open_clip's own model; `changes` are of its configuration."""
    torch.manual_seed(seed)
    config = MODEL | changes
    folder.mkdir(parents=True, exist_ok=True)
    looks = {"size": 32, "interpolation": "bicubic", "resize_mode": "shortest"}
    described = {"model_cfg": config, "preprocess_cfg": looks}
    (folder / "open_clip_config.json").write_text(json.dumps(described))
    model = open_clip.create_model(f"local-dir:{folder}", load_weights=False).eval()
    with torch.no_grad():  # small random weights would give all pictures nearly one point
        for name, weight in model.named_parameters():
            if weight.ndim > 1:
                weight.normal_(std=0.2)
            elif name.endswith("bias"):
                weight.normal_(std=0.1)
    save_file(model.state_dict(), folder / "open_clip_model.safetensors")
    return model
