"""A captioner on disk: a folder of four files, none of which can run code.

model.safetensors   weights, templates, trigrams, and hashes of the training captions
config.json         the encoder, how the captioner was trained, and its metrics
vocabulary.json     the words
SHA256SUMS          the checksums of all files
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hasse.models.checkpoints.checkpoint import Checkpoint
from hasse.models.checkpoints.model_folder import VOCABULARY, WEIGHTS, CheckpointError, ModelKind
from hasse.models.checkpoints.weights import quantize, tensors, weights
from hasse.models.tensor_files import with_prefix
from hasse.models.vocabulary import Vocabulary
from hasse.studies.captioner.captioner import Captioner
from hasse.studies.captioner.judgement import Judgement
from hasse.studies.captioner.language_model import LanguageModel, LanguageModelConfig
from hasse.studies.captioner.trigrams import Trigrams

KIND = ModelKind("captioning", "hasse study captioner train", 1, (VOCABULARY,))
_WEIGHTS, _JUDGEMENT = "language_model.", "judgement."  # prefixes of their tensors


@dataclass(frozen=True, slots=True)
class CaptionerCheckpoint:
    """A loaded captioner, its encoder and its training.

    Attributes:
        encoder: the fingerprint of the model whose points it reads.
        training: how it was trained, with the sizes of the language model as "model".
        judgement: predicts truth; None if the truth of generated captions is unknown in training.
        fingerprint: SHA-256 of its weights, "" before it is saved.
    """

    captioner: Captioner
    encoder: str
    training: Mapping[str, Any]
    judgement: Judgement | None
    metrics: Mapping[str, Any]
    fingerprint: str = ""


def save(checkpoint: CaptionerCheckpoint, folder: Path, encoder_name: str) -> None:
    """Write a captioner, each file whole or not at all; matrices in 16 bits."""
    captioner = checkpoint.captioner
    config = {
        "encoder": {"name": encoder_name, "fingerprint": checkpoint.encoder},
        "training": dict(checkpoint.training),
        "tags": captioner.tags,
        "judgement": checkpoint.judgement is not None,
        "metrics": dict(checkpoint.metrics),
    }
    learned_weights = {_WEIGHTS + key: value for key, value in captioner.model.state_dict().items()}
    if checkpoint.judgement is not None:
        judgement_weights = checkpoint.judgement.state_dict()
        learned_weights |= {_JUDGEMENT + key: value for key, value in judgement_weights.items()}
    stored = quantize(learned_weights | {"references": captioner.references}, "float16") | {
        "templates": captioner.templates.to(torch.uint8),
        "counts": captioner.counts,
        "trigrams": torch.from_numpy(captioner.trigrams.grams),
        "trigram_counts": torch.from_numpy(captioner.trigrams.counts).int(),
        "hashes": torch.from_numpy(captioner.hashes),
    }
    KIND.save(folder, config, stored, {VOCABULARY: captioner.vocabulary.to_bytes()})


def load(folder: Path, model: Checkpoint) -> CaptionerCheckpoint:
    """Read the captioner of a model; of a grounded model, that of the trained model below it.

    Raises:
        CheckpointError: a file is missing, damaged, or of another kind or format (the message
            names it), or the captioner was trained for another model.
    """
    model = model.base or model
    with KIND.open(folder) as (config, sums):
        encoder = config["encoder"]
        if encoder["fingerprint"] != model.fingerprint:
            raise CheckpointError(
                f"{folder} writes captions for another model (one called {encoder['name']}) than "
                f"{model.folder}, whose points and words differ: train one for it with "
                f"'{KIND.command} DATASET --model {model.folder}'"
            )
        training = config["training"]
        sizes = LanguageModelConfig(**training["model"])
        vocabulary, tags = Vocabulary.load(folder / VOCABULARY), tuple(config["tags"])
        dimension = model.model.config.dimension
        judgement = Judgement(dimension).eval() if config["judgement"] else None
        language_model = LanguageModel(sizes, len(vocabulary), 1 + len(tags), dimension)
        with weights(folder) as arrays:
            stored = tensors(arrays)
            language_model.load_state_dict(with_prefix(_WEIGHTS, stored))
            if judgement is not None:
                judgement.load_state_dict(with_prefix(_JUDGEMENT, stored))
            trigrams = Trigrams(
                arrays["trigrams"],
                arrays["trigram_counts"].astype(np.int64),
                len(vocabulary),
            )
            captioner = Captioner(
                language_model,
                vocabulary,
                tags,
                stored["templates"].long(),
                stored["counts"],
                trigrams,
                stored["references"],
                arrays["hashes"],
            )
    return CaptionerCheckpoint(
        captioner,
        encoder["fingerprint"],
        training,
        judgement,
        config["metrics"],
        sums[WEIGHTS],
    )
