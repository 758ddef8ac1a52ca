"""Learn which sentence may be inferred from which (Vendrov et al., section 5)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hasse.lab.checkpoints.learned_model import order_embedding_of
from hasse.lab.encoders.text_encoder import Ensemble
from hasse.lab.training.config import LARGEST_FACTOR
from hasse.lab.training.run import TrainingError
from hasse.models.checkpoints.checkpoint import Checkpoint
from hasse.models.encoders.model_config import ModelConfig
from hasse.models.vocabulary import UNKNOWN, Vocabulary
from hasse.studies.entailment.corpus import Corpus, SentencePair, labels
from hasse.studies.entailment.embedding import SentenceConfig, SentenceEmbedding
from hasse.studies.labelled_pairs import Accuracy, Labels, PairRun, Penalties


@dataclass(frozen=True, slots=True)
class EntailmentTraining:
    """How to train; the defaults are the paper's (section 5.3), but that points have any length.

    Attributes:
        epochs: maximum number of passes; 0 leaves the start as it is and chooses the threshold.
        batch_size: pairs in a batch.
        learning_rate: of Adam.
        margin: smallest penalty that pairs which are not entailed are pushed to.
        clip_norm: the longest gradient of one weight tensor; longer ones are scaled down.
        seed: random seed.
    """

    model: SentenceConfig = field(default_factory=SentenceConfig)
    epochs: int = 10
    batch_size: int = 128
    learning_rate: float = 1e-3
    margin: float = 1.0
    clip_norm: float = 2.0
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse values that no training can have (ValueError)."""
        if self.epochs < 0 or self.batch_size < 1:
            raise ValueError("epochs is at least 0, batch_size at least 1")
        above = (self.learning_rate, self.margin, self.clip_norm)
        if not all(0 < each <= LARGEST_FACTOR for each in above):
            raise ValueError(
                f"learning_rate, margin and clip_norm are above 0 and at most {LARGEST_FACTOR:g}"
            )
        if not 0 <= self.seed < 2**63:
            raise ValueError("seed is a whole number from 0 to 2^63 - 1")


def start_from(checkpoint: Checkpoint, config: EntailmentTraining) -> EntailmentTraining:
    """Give a training the shape of a retrieval model's caption encoder.

    Of an ensemble it is the first member's. A length that it has learned stays learned; a unit
    length is what the training says.

    Raises:
        TrainingError: the model compares or reads captions in another way.
    """
    of = order_embedding_of(checkpoint).config
    comparison = {"order": "order", "cosine": "symmetric"}.get(of.score)
    if comparison is None:
        raise TrainingError(
            f"{checkpoint.folder} compares by {of.score}, as no model of "
            f"entailment does: choose a --start of the score order or cosine"
        )
    if comparison != config.model.comparison:
        raise TrainingError(
            f"{checkpoint.folder} compares by {of.score} and cannot start a "
            f"model that compares by {config.model.comparison}: choose the other --set comparison"
        )
    if type(of) is not ModelConfig:
        raise TrainingError(
            f"{checkpoint.folder} does not read captions as a model of entailment does, by a GRU "
            f"on word vectors that learn: choose another --start"
        )
    shape = replace(
        config.model,
        dimension=of.dimension // of.ensemble,
        word_dimension=of.word_dimension,
        word_range=of.word_range,
        max_words=of.max_words,
        pooling=of.caption_pooling,
        length="learned" if of.length == "learned" else config.model.length,
    )
    return replace(config, model=shape)


def initial(
    config: EntailmentTraining, corpus: Corpus, start: Checkpoint | None = None
) -> SentenceEmbedding:
    """Return the model that a training starts from.

    From scratch its words are those of the training pairs. From a retrieval model they are that
    model's, and then the training pairs' others, which start as unknown words are read.

    Raises:
        TrainingError: the training pairs have no words.
    """
    torch.manual_seed(config.seed)
    try:
        own = Vocabulary.build(
            text for pair in corpus.train for text in (pair.premise, pair.hypothesis)
        )
    except ValueError:
        raise TrainingError(
            f"the training pairs of {corpus.name} have no words: there is nothing to learn to read"
        ) from None
    if start is None:
        return SentenceEmbedding(config.model, own)
    learned = order_embedding_of(start).vocabulary.words
    known = set(learned)
    vocabulary = Vocabulary([*learned, *(word for word in own.words if word not in known)])
    model = SentenceEmbedding(config.model, vocabulary)
    encoder = order_embedding_of(start).captions
    first = encoder.encoders[0] if isinstance(encoder, Ensemble) else encoder
    weights = {key: value.clone() for key, value in first.state_dict().items()}
    table = weights["embedding.weight"]
    unknown = table[UNKNOWN].expand(len(vocabulary) - len(table), -1)
    model.captions.load_state_dict(weights | {"embedding.weight": torch.cat((table, unknown))})
    return model


class EntailmentRun(PairRun[NDArray[np.int64], SentenceEmbedding]):
    """The training of a model that compares sentences.

    The model is also measured as it starts, so `best` may be the start.
    """

    def __init__(
        self, config: EntailmentTraining, model: SentenceEmbedding, corpus: Corpus
    ) -> None:
        """Take where to start, see `initial`; the model is changed.

        Args:
            corpus: what to learn from, and what to choose the threshold and the epoch by.
        """
        super().__init__(config.epochs, math.ceil(len(corpus.train) / config.batch_size))
        self.config, self.model, self.corpus = config, model, corpus
        self.optimizer = torch.optim.Adam(model.parameters(), config.learning_rate)
        self.draw = np.random.default_rng([config.seed, 1])
        texts = (text for pair in corpus.train for text in (pair.premise, pair.hypothesis))
        self.tokens = {text: model.tokens(text) for text in dict.fromkeys(texts)}
        self.true = torch.from_numpy(labels(corpus.train))

    def begin(self) -> None:
        """Keep the model as it starts."""
        threshold = self.measure(0.0)
        self.notes["best"] = self.quality(threshold)
        self.save_model(threshold)

    def batches(self, epoch: int, first: int) -> Iterator[NDArray[np.int64]]:
        """Yield the rows of the pairs of each step."""
        self.model.train()
        order, size = self.draw.permutation(len(self.true)), self.config.batch_size
        yield from (order[start : start + size] for start in range(0, len(order), size))

    def step(self, epoch: int, step: int, batch: NDArray[np.int64]) -> Tensor:
        """Pull entailed pairs into order, and push all others out of it as far as the margin."""
        pairs = [self.corpus.train[row] for row in batch]
        sides = [pair.premise for pair in pairs] + [pair.hypothesis for pair in pairs]
        premises, hypotheses = self.model([self.tokens[text] for text in sides]).chunk(2)
        penalty = self.model.compare(premises, hypotheses)
        entailed, short = self.true[batch].to(penalty.device), self.config.margin - penalty
        loss = torch.where(entailed, penalty, short.clamp(min=0)).sum()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        for weight in self.model.parameters():
            torch.nn.utils.clip_grad_norm_(weight, self.config.clip_norm)
        self.optimizer.step()
        return loss.detach() / len(pairs)

    def validate(self) -> tuple[Penalties, Labels]:
        """Compare the pairs of the validation part."""
        self.model.eval()
        held = self.corpus.validation
        return self.model.penalties(held), labels(held)


def evaluate(model: SentenceEmbedding, threshold: float, pairs: Sequence[SentencePair]) -> Accuracy:
    """Measure a model on pairs, with a threshold chosen on others."""
    return Accuracy.at(threshold, labels(pairs), model.penalties(pairs))


def evaluate_majority(train: Sequence[SentencePair], pairs: Sequence[SentencePair]) -> Accuracy:
    """Measure the baseline that always answers with the majority class of the training."""
    true = labels(pairs)
    return Accuracy.of(true == bool(labels(train).mean() > 0.5), true)
