"""A tiny model with random weights: quick to make, and real in every other way."""

from __future__ import annotations

from pathlib import Path

import torch

from models import checkpoint
from models.model import ModelConfig, OrderEmbedding
from models.pictures import Preprocessing
from models.score import Score
from models.vocabulary import Vocabulary

WORDS = ["a", "the", "dog", "cat", "child", "person", "animal", "red", "blue", "runs", "in", "park"]
DIMENSION = 16


def tiny_model(score: Score = "order", seed: int = 0) -> OrderEmbedding:
    """Build the model: 16 dimensions, ShuffleNet at 32 pixels."""
    torch.manual_seed(seed)
    config = ModelConfig(
        score=score, backbone="shufflenet_v2_x0_5", dimension=DIMENSION, word_dimension=8
    )
    model = OrderEmbedding(config, Vocabulary(WORDS), Preprocessing(resize=36, crop=32))
    return model.eval()


def tiny_checkpoint(folder: Path, score: Score = "order", seed: int = 0) -> Path:
    """Save the model as the checkpoint `tiny` in `folder`, and return `folder`."""
    checkpoint.save(folder, tiny_model(score, seed), "tiny", {})
    return folder
