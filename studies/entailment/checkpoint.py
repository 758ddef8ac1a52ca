"""A model of entailment on disk: a folder of four files, none of which can run code.

model.safetensors   weights of the sentence encoder
config.json         how it was trained, its threshold, and what it measured
vocabulary.json     the words
SHA256SUMS          the checksums of all
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hasse.lab.tensors import arrays, tensors
from hasse.models.checkpoints.model_folder import VOCABULARY, ModelKind
from hasse.models.checkpoints.weights import weights
from hasse.models.vocabulary import Vocabulary
from hasse.studies.entailment.embedding import SentenceConfig, SentenceEmbedding
from hasse.studies.entailment.training import EntailmentTraining

KIND = ModelKind("entailment", "hasse study entailment train", 3, (VOCABULARY,))


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
    """Write a checkpoint to its folder, each file whole or not at all."""
    model = checkpoint.model
    config = {
        "threshold": checkpoint.threshold,
        "training": asdict(checkpoint.training),
        "metrics": dict(checkpoint.metrics),
    }
    others = {VOCABULARY: model.vocabulary.to_bytes()}
    KIND.save(checkpoint.folder, config, arrays(model.state_dict()), others)


def load(folder: Path) -> EntailmentCheckpoint:
    """Read a checkpoint.

    Raises:
        CheckpointError: a file is missing, damaged, or of another kind or format, and named; or a
            training wrote the model anew meanwhile.
    """
    with KIND.open(folder) as (config, _):
        described = dict(config["training"])
        shape = SentenceConfig(**described["model"])
        training = EntailmentTraining(**described | {"model": shape})
        threshold, metrics = float(config["threshold"]), dict(config["metrics"])
        model = SentenceEmbedding(training.model, Vocabulary.load(folder / VOCABULARY))
        with weights(folder) as found:
            model.load_state_dict(tensors(found))
    return EntailmentCheckpoint(model.eval(), threshold, training, metrics, folder)
