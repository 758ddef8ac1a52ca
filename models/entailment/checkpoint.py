"""A model of entailment on disk: a folder of three files, none of which can run code.

model.safetensors   weights of the sentence encoder
config.json         how it was trained, its threshold, and what it measured
vocabulary.json     the words
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file

from models.entailment.embedding import SentenceConfig, SentenceEmbedding
from models.entailment.pairs import EntailmentError
from models.entailment.training import EntailmentTraining
from models.files import write_weights, write_whole
from models.vocabulary import Vocabulary

WEIGHTS, CONFIG, VOCABULARY = "model.safetensors", "config.json", "vocabulary.json"
KIND, FORMAT = "entailment", 2


@dataclass(frozen=True, slots=True)
class EntailmentCheckpoint:
    """A loaded model (in evaluation mode) and what is known of it.

    Attributes:
        threshold: call entailed what has a smaller penalty.
        metrics: what it was trained on and how well it did in validation.
    """

    model: SentenceEmbedding
    threshold: float
    training: EntailmentTraining
    metrics: Mapping[str, Any]
    folder: Path


def save(checkpoint: EntailmentCheckpoint) -> None:
    """Write a checkpoint to its folder, each file whole or not at all, the weights last."""
    folder, model = checkpoint.folder, checkpoint.model
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "kind": KIND,
        "format": FORMAT,
        "threshold": checkpoint.threshold,
        "training": asdict(checkpoint.training),
        "metrics": dict(checkpoint.metrics),
    }
    write_whole(folder / CONFIG, json.dumps(config, indent=2).encode())
    write_whole(folder / VOCABULARY, model.vocabulary.to_bytes())
    write_weights(folder / WEIGHTS, model.state_dict())


def load(folder: Path) -> EntailmentCheckpoint:
    """Read a checkpoint.

    Raises:
        EntailmentError: a file is missing, damaged, or of another kind or format; it is named.
    """
    for file_name in (CONFIG, VOCABULARY, WEIGHTS):
        if not (folder / file_name).is_file():
            raise EntailmentError(
                f"{folder} holds no model of entailment: it has no {file_name}; train one with "
                f"'hasse entailment train', or name another folder"
            )
    try:
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
        if config.get("kind") != KIND:
            raise EntailmentError(
                f"{folder} holds a model of another kind: name a folder that 'hasse entailment "
                f"train' wrote, which takes one of 'hasse train' with --start"
            )
        if config["format"] != FORMAT:
            raise EntailmentError(
                f"{folder / CONFIG} has format {config['format']}; this version reads {FORMAT}: "
                f"train the model again"
            )
        described = dict(config["training"])
        training = EntailmentTraining(**described | {"model": SentenceConfig(**described["model"])})
        threshold, metrics = float(config["threshold"]), dict(config["metrics"])
        vocabulary = Vocabulary.load(folder / VOCABULARY)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise EntailmentError(
            f"{folder} is damaged: {CONFIG} or {VOCABULARY} cannot be read ({error}); restore it "
            f"or train the model again"
        ) from error
    model = SentenceEmbedding(training.model, vocabulary)
    try:
        model.load_state_dict(load_file(folder / WEIGHTS))
    except (SafetensorError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise EntailmentError(
            f"{folder / WEIGHTS} does not hold the weights of {CONFIG} ({reason}); restore it or "
            f"train the model again"
        ) from error
    return EntailmentCheckpoint(model.eval(), threshold, training, metrics, folder)
