"""A captioner with random weights for the tiny model."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch

from hasse.models.checkpoints.checkpoint import Checkpoint
from hasse.models.vocabulary import Vocabulary
from hasse.studies.captioner.captioner import Captioner, hash_of, unit
from hasse.studies.captioner.checkpoint import CaptionerCheckpoint, save
from hasse.studies.captioner.language_model import LanguageModel, LanguageModelConfig
from hasse.studies.captioner.trigrams import Trigrams

SIZES = LanguageModelConfig(word_dimension=12, slices=12, factors=8, context=3, ahead=2)
TAGS = ("determiner", "noun", "preposition", "adjective", "verb-s")
# Training captions with the numbers of their parts of speech.
STRUCTURES = {
    "a dog runs in the park": (1, 2, 5, 3, 1, 2),
    "the blue dog runs": (1, 4, 2, 5),
    "a man in the park": (1, 2, 3, 1, 2),
    "a black man walks": (1, 4, 2, 5),
}
TEXTS = tuple(STRUCTURES)
_LONGEST = 12


def make_captioner(encoder: Checkpoint, out: Path, seed: int = 0) -> CaptionerCheckpoint:
    """Write a captioner of that seed for a model to `out`."""
    torch.manual_seed(seed)
    vocabulary = Vocabulary(sorted({word for text in TEXTS for word in text.split()}))
    model = LanguageModel(SIZES, len(vocabulary), 1 + len(TAGS), encoder.model.config.dimension)
    rows = sorted({tags + (0,) * (_LONGEST - len(tags)) for tags in STRUCTURES.values()})
    numbered = (vocabulary.encode(text, _LONGEST) for text in TEXTS)
    captioner = Captioner(
        model,
        vocabulary,
        TAGS,
        torch.tensor(rows),
        torch.ones(len(rows), dtype=torch.int64),
        Trigrams.count(numbered, len(vocabulary)),
        unit(encoder.model.encode_captions(TEXTS)),
        np.unique(hash_of(TEXTS)),
    )
    trained = {"model": asdict(SIZES)}
    found = CaptionerCheckpoint(captioner, encoder.fingerprint, trained, None, {"perplexity": 9.0})
    save(found, out, encoder.name)
    return found
