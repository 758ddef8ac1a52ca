"""From training captions to a captioner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn.functional import pad

from hasse.models.checkpoints.checkpoint import Checkpoint
from hasse.models.datasets import DatasetError
from hasse.models.vocabulary import Vocabulary
from hasse.studies.captioner.captioner import LONGEST, SHORTEST, Captioner, hash_of
from hasse.studies.captioner.corpus import Corpus, Sentence, join_by_picture, numbered
from hasse.studies.captioner.language_model import NO_TAG, LanguageModel
from hasse.studies.captioner.training import CaptionerRun, CaptionerTraining
from hasse.studies.captioner.trigrams import Trigrams

REFERENCES = 2000  # pictures whose joint captions a captioner keeps


@dataclass(frozen=True, slots=True)
class Prepared:
    """Inputs of a training.

    Attributes:
        texts: the training captions.
        tags: names of the parts of speech, by falling frequency.
    """

    train: Corpus
    validation: Corpus
    texts: Sequence[str]
    vocabulary: Vocabulary
    tags: tuple[str, ...]

    @classmethod
    def of(
        cls,
        train: Sequence[Sentence],
        validation: Sequence[Sentence],
        encoder: Checkpoint,
        min_word_count: int,
    ) -> Prepared:
        """Number and encode captions. Words that are rare, or unknown to the encoder, are left out.

        Raises:
            DatasetError: no word is left.
        """
        texts = [" ".join(sentence.words) for sentence in train]
        counts = Counter(word for sentence in train for word in sentence.words)
        knows = encoder.vocabulary.knows
        usual = [word for word, count in counts.items() if count >= min_word_count and knows(word)]
        if not usual:
            raise DatasetError(
                f"the encoder {encoder.name} knows no word that {min_word_count} or more of these "
                f"captions have: name the --model that learned from such captions, or lower "
                f"min_word_count"
            )
        vocabulary = Vocabulary(sorted(usual, key=lambda word: (-counts[word], word)))
        uses = Counter(tag for sentence in train for tag in sentence.tags)
        tags = tuple(sorted(uses, key=lambda tag: (-uses[tag], tag)))
        return cls(
            numbered(train, vocabulary, tags, encoder.model),
            numbered(validation, vocabulary, tags, encoder.model),
            texts,
            vocabulary,
            tags,
        )

    def training(
        self,
        config: CaptionerTraining,
        encoder: Checkpoint,
        save: Callable[[LanguageModel, float], object] = lambda model, perplexity: None,
    ) -> CaptionerRun:
        """Return a training that has not begun."""
        torch.manual_seed(config.seed)
        shape = encoder.model.config
        model = LanguageModel(
            config.model, len(self.vocabulary), 1 + len(self.tags), shape.dimension
        )
        return CaptionerRun(config, model, self.train, self.validation, shape.score, save)

    def captioner(self, model: LanguageModel, encoder: Checkpoint) -> Captioner:
        """Return the captioner of a language model."""
        lengths = [len(row) for row in self.train.tags]
        rows = [
            pad(row, (0, LONGEST - length), value=NO_TAG)
            for row, length in zip(self.train.tags, lengths, strict=True)
            if SHORTEST <= length <= LONGEST
        ]
        if not rows:
            raise DatasetError(
                f"no training caption has {SHORTEST} to {LONGEST} words, so there is none whose "
                f"structure a written caption could have"
            )
        templates, counts = np.unique(torch.stack(rows).numpy(), axis=0, return_counts=True)
        joint = join_by_picture(self.train, encoder.model.config.score)
        chosen = np.linspace(0, len(joint) - 1, min(REFERENCES, len(joint))).astype(np.int64)
        return Captioner(
            model,
            self.vocabulary,
            self.tags,
            torch.from_numpy(templates),
            torch.from_numpy(counts),
            Trigrams.count((row.tolist() for row in self.train.words), len(self.vocabulary)),
            joint[chosen],
            np.unique(hash_of(self.texts)),
        )
