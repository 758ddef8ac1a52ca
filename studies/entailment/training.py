"""Learn which sentence may be inferred from which (Vendrov et al., section 5)."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hasse.models.checkpoints.checkpoint import Checkpoint
from hasse.models.encoders.text_encoder import Ensemble
from hasse.models.training.config import LARGEST
from hasse.models.training.run import Progress, Run, Stop
from hasse.models.vocabulary import UNKNOWN, Vocabulary
from hasse.studies.entailment.embedding import SentenceConfig, SentenceEmbedding
from hasse.studies.entailment.pairs import Corpus, EntailmentError, labels
from hasse.studies.threshold import Threshold, best_threshold


@dataclass(frozen=True, slots=True)
class EntailmentTraining:
    """How to train; the defaults are the paper's (section 5.3), but that points have any length.

    Attributes:
        epochs: passes over the pairs; 0 takes the starting point as it is and only chooses the
            threshold.
        batch_size: pairs in a batch.
        learning_rate: Adam's.
        margin: how far a pair that is not entailed is kept from being so.
        clip_norm: the longest gradient of one weight tensor; longer ones are scaled down.
        seed: of everything random.
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
        if not all(0 < each <= LARGEST for each in above):
            raise ValueError(
                f"learning_rate, margin and clip_norm are above 0 and at most {LARGEST:g}"
            )
        if not 0 <= self.seed < 2**63:
            raise ValueError("seed is a whole number from 0 to 2^63 - 1")


Save = Callable[[SentenceEmbedding, Threshold], None]


def start_from(checkpoint: Checkpoint, config: EntailmentTraining) -> EntailmentTraining:
    """Give a training the shape of a retrieval model's caption encoder.

    Of an ensemble it is the first member's. A length that it has learned stays learned; a unit
    length is what the training says.

    Raises:
        EntailmentError: the model compares or reads captions in another way.
    """
    comparison = {"order": "order", "cosine": "symmetric"}.get(checkpoint.trained.config.score)
    if comparison is None:
        raise EntailmentError(
            f"{checkpoint.folder} compares by {checkpoint.trained.config.score}, as no model of "
            f"entailment does: choose a --start of the score order or cosine"
        )
    if comparison != config.model.comparison:
        raise EntailmentError(
            f"{checkpoint.folder} compares by {checkpoint.trained.config.score} and cannot start a "
            f"model that compares by {config.model.comparison}: choose the other --comparison"
        )
    of = checkpoint.trained.config
    if of.text_encoder != "gru" or of.states or of.word_vectors == "fixed":
        raise EntailmentError(
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
        EntailmentError: the training pairs have no words.
    """
    torch.manual_seed(config.seed)
    try:
        own = Vocabulary.build(
            text for pair in corpus.train for text in (pair.premise, pair.hypothesis)
        )
    except ValueError:
        raise EntailmentError(
            f"the training pairs of {corpus.name} have no words: there is nothing to learn to read"
        ) from None
    if start is None:
        return SentenceEmbedding(config.model, own)
    learned = start.trained.vocabulary.words
    known = set(learned)
    vocabulary = Vocabulary([*learned, *(word for word in own.words if word not in known)])
    model = SentenceEmbedding(config.model, vocabulary)
    encoder = start.trained.captions
    first = encoder.encoders[0] if isinstance(encoder, Ensemble) else encoder
    weights = {key: value.clone() for key, value in first.state_dict().items()}
    table = weights["embedding.weight"]
    unknown = table[UNKNOWN].expand(len(vocabulary) - len(table), -1)
    model.captions.load_state_dict(weights | {"embedding.weight": torch.cat((table, unknown))})
    return model


class EntailmentRun(Run[NDArray[np.int64], Threshold]):
    """The training of a model that compares sentences.

    Attributes:
        best: the model and its threshold as they were best in validation, at the start or after
            an epoch.
    """

    best: tuple[SentenceEmbedding, Threshold]

    def __init__(
        self,
        config: EntailmentTraining,
        model: SentenceEmbedding,
        corpus: Corpus,
        save: Save | None = None,
    ) -> None:
        """Take where to start, see `initial`; the model is changed.

        Args:
            corpus: what to learn from, and what to choose the threshold and the epoch by.
            save: given the model and its threshold at the start, and whenever an epoch is better.
        """
        super().__init__(config.epochs, math.ceil(len(corpus.train) / config.batch_size))
        self.config, self.model, self.corpus, self.save_best = config, model, corpus, save
        self.optimizer = torch.optim.Adam(model.parameters(), config.learning_rate)
        self.draw = np.random.default_rng([config.seed, 1])
        texts = (text for pair in corpus.train for text in (pair.premise, pair.hypothesis))
        self.tokens = {text: model.tokens(text) for text in dict.fromkeys(texts)}
        self.true = torch.from_numpy(labels(corpus.train))

    def train(
        self,
        report: Callable[[Progress[Threshold]], None] | None = None,
        stop: Stop | None = None,
    ) -> tuple[SentenceEmbedding, Threshold]:
        """Train to the end and return `best`; see `Run.run`."""
        self.run(report, stop)
        return self.best

    def begin(self) -> None:
        """Keep the model as it starts."""
        threshold = self.measure(0.0)
        self.notes["best"] = self.quality(threshold)
        self.keep(threshold)

    def batches(self, epoch: int, first: int) -> Iterator[NDArray[np.int64]]:
        """Yield the rows of the pairs of each step."""
        self.model.train()
        order, size = self.draw.permutation(len(self.true)), self.config.batch_size
        yield from (order[start : start + size] for start in range(0, len(order), size))

    def step(self, epoch: int, step: int, batch: NDArray[np.int64]) -> Tensor:
        """Pull what follows into order, and push all else out of it as far as the margin."""
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

    def measure(self, loss: float) -> Threshold:
        """Choose the threshold on the validation part."""
        self.model.eval()
        held = self.corpus.validation
        return best_threshold(self.model.penalties(held), labels(held))

    def quality(self, measured: Threshold) -> float:
        """Compare epochs by the share of pairs called right."""
        return measured.accuracy

    def keep(self, measured: Threshold) -> None:
        """Copy and save the model."""
        self.best = copy.deepcopy(self.model), measured
        if self.save_best is not None:
            self.save_best(*self.best)
