"""A tiny captioned dataset, prepared for the training of a captioner."""

from __future__ import annotations

from pathlib import Path

from hasse.models.checkpoints.checkpoint import Checkpoint
from hasse.models.datasets import Caption, Dataset, Image
from hasse.studies.captioner.building import Prepared
from hasse.studies.captioner.corpus import sentences
from hasse.studies.captioner.language_model import LanguageModelConfig
from hasse.studies.captioner.training import CaptionerTraining
from hasse.studies.wordnet.lexicon import Lexicon
from tests.wordnet import write_wordnet

TEXTS = ("a dog runs in the park", "the blue dog runs", "a man in the park", "a black man walks")
SIZES = LanguageModelConfig(word_dimension=12, slices=12, factors=8, context=3, ahead=2)
TRAINING = CaptionerTraining(SIZES, epochs=3, batch_size=4, min_word_count=1, learning_rate=0.01)


def captioned(number: int = 24, texts: tuple[str, ...] = TEXTS) -> Dataset:
    """Return images without files in the splits train and val, with two captions each."""
    images = [
        Image(
            at,
            f"{at}.jpg",
            Path(f"{at}.jpg"),
            "val" if at % 4 == 3 else "train",
            captions=tuple(Caption(2 * at + n, at, texts[(at + n) % len(texts)]) for n in range(2)),
        )
        for at in range(1, number + 1)
    ]
    return Dataset("captioned", tuple(images))


def prepare(encoder: Checkpoint, folder: Path, training: CaptionerTraining = TRAINING) -> Prepared:
    """Read the captions of `captioned`; WordNet's files go to `folder`."""
    lexicon = Lexicon.read(write_wordnet(folder))
    train, validation = (sentences(captioned().split(name), lexicon) for name in ("train", "val"))
    return Prepared.of(train, validation, encoder, training.min_word_count)
