"""A model of version 0.3.0, with torch's weights, becomes one of ONNX graphs with its points."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import open_clip
import pytest
import torch

from hasse.lab.encoders.pair_export import OLD_KIND, convert
from hasse.lab.encoders.registry import build_encoder_pair
from hasse.models.calibration import Calibrations
from hasse.models.checkpoints import checkpoint
from hasse.models.checkpoints.model_folder import (
    VOCABULARY,
    CheckpointError,
    read_sums,
)
from tests.tiny_clip import NAME, tiny_clip
from tests.tiny_towers import immich_folder

TEXTS = ["a dog", "a red dog runs in the park", ""]
CALIBRATION = json.dumps({**Calibrations().to_json()}).encode() + b" "


def old_model(tmp_path: Path) -> Path:
    """Write a model as version 0.3.0 did."""
    pair = build_encoder_pair(NAME, tmp_path / "clip")
    config = {
        "name": "tiny",
        "model": {
            "encoder": NAME,
            "weights": "sum",
            "dimension": 16,
            "score": "cosine",
            "image_pooling": "average",
            "length": "unit",
        },
        "architecture": pair.architecture.model,
        "preprocessing": asdict(pair.architecture.preprocessing),
    }
    tokenizer = {
        "context_length": 12,
        "clean": "lower",
        "vocabulary": None,
        "padding": 0,
        "separator": None,
    }
    halves = {"images": pair.images, "texts": pair.texts}
    weights = {
        f"{half}.{name}": weight
        for half, network in halves.items()
        for name, weight in network.state_dict().items()
    }
    other_files = {
        VOCABULARY: json.dumps(tokenizer).encode(),
        "calibration.json": CALIBRATION,
        "metrics.json": b"{}",
    }
    OLD_KIND.save(tmp_path / "model", config, weights, other_files)
    return tmp_path / "model"


def test_convert_keeps_points_calibration_and_fingerprint(tmp_path: Path) -> None:
    theirs = tiny_clip(tmp_path / "clip")
    folder = old_model(tmp_path)
    with pytest.raises(CheckpointError, match="'hasse lab model convert'"):
        checkpoint.load(folder)
    before = checkpoint.fingerprint_of(read_sums(folder) or {})
    convert(folder)
    loaded = checkpoint.load(folder, runtime="onnxruntime")
    assert (loaded.fingerprint, loaded.name) == (before, "tiny")
    assert (folder / "calibration.json").read_bytes() == CALIBRATION
    read = open_clip.get_tokenizer(f"local-dir:{tmp_path / 'clip'}")
    with torch.inference_mode():
        expected = theirs.encode_text(read(TEXTS), normalize=True).numpy()
    np.testing.assert_allclose(loaded.model.encode_captions(TEXTS), expected, atol=1e-5)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["clip", "model"]
    assert not (folder / "model.safetensors").exists()


def test_convert_of_a_damaged_model_leaves_it(tmp_path: Path) -> None:
    tiny_clip(tmp_path / "clip")
    folder = old_model(tmp_path)
    (folder / VOCABULARY).write_text("{}")
    content = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(CheckpointError, match=f"{VOCABULARY} is not what"):
        convert(folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == content


def test_convert_of_another_kind_of_model_is_refused(tmp_path: Path) -> None:
    immich_folder(tmp_path)
    with pytest.raises(CheckpointError, match=r"config\.json cannot be read"):
        convert(tmp_path)
