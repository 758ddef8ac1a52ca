"""A tiny model with random weights: quick to make, and real in every other way."""

from __future__ import annotations

import hashlib
import os
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from hasse.models.calibration import Calibration, Calibrations
from hasse.models.checkpoints.model_folder import SUMS
from hasse.models.encoders.model_config import ModelConfig
from hasse.models.images.preprocessing import Preprocessing
from hasse.models.score import SCORES, Score
from hasse.models.vocabulary import Vocabulary

if TYPE_CHECKING:
    from hasse.lab.encoders.order_embedding import OrderEmbedding

TINY = "torchvision/tiny"
TINY_DROPPING = "torchvision/tiny_dropping"  # that leaves out channels in training
# Where the files of tiny models are kept for tests without torch, which cannot make them.
KEPT = os.environ.get("HASSE_TEST_MODELS")
WORDS = ["a", "the", "dog", "cat", "child", "person", "animal", "red", "blue", "runs", "in", "park"]
DIMENSION = 16
# Made up, as the weights are.
CALIBRATION = Calibrations(
    image=Calibration((0.1, 0.5, 0.9), (0.9, 0.4, 0.1), 0.4, pairs=100, true=20),
    caption=Calibration((0.0, 0.6), (0.8, 0.0), 0.2, pairs=90, true=10),
)


def tiny_model(score: Score = "order", seed: int = 0, backbone: str = TINY) -> OrderEmbedding:
    """Build the model, which learns: 16 dimensions, a network at 32 pixels."""
    import torch

    import tests.tiny_network  # its name is known from here on
    from hasse.lab.encoders.order_embedding import OrderEmbedding

    assert tests.tiny_network.FEATURES
    torch.manual_seed(seed)
    config = ModelConfig(
        score=score,
        backbone=backbone,
        dimension=DIMENSION,
        word_dimension=8,
    )
    model = OrderEmbedding(config, Vocabulary(WORDS), Preprocessing(resize=36, crop=32))
    return model.eval()


def tiny_checkpoint(
    folder: Path, score: Score = "order", seed: int = 0, backbone: str = TINY
) -> Path:
    """Save the model as the checkpoint `tiny` in `folder`, and return `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in _files(score, seed, backbone, tuple(WORDS)).items():
        (folder / name).write_bytes(content)
    return folder


@cache
def _files(score: Score, seed: int, backbone: str, words: tuple[str, ...]) -> dict[str, bytes]:
    """Return the files of a checkpoint with these words, the same in every folder."""
    if find_spec("torch") is None:
        assert KEPT is not None, (
            "without torch: HASSE_TEST_MODELS names the folder of python -m tests.tiny"
        )
        return _read(Path(KEPT, f"{score}-{seed}"))
    from hasse.lab.checkpoints import learned_model

    with TemporaryDirectory() as folder:
        model = tiny_model(score, seed, backbone)
        learned_model.save(Path(folder), model, "tiny", {}, CALIBRATION)
        return _read(Path(folder))


def _read(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def seal(folder: Path) -> None:
    """Give a model that was changed by hand the checksums that its files have now."""
    files = [path for path in folder.iterdir() if path.name != SUMS]
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}" for path in files]
    (folder / SUMS).write_text("\n".join(sums))


if __name__ == "__main__":  # keep the models that tests without torch use: python -m tests.tiny DIR
    for kept_score in SCORES:
        for kept_seed in range(4):
            tiny_checkpoint(Path(sys.argv[1], f"{kept_score}-{kept_seed}"), kept_score, kept_seed)
