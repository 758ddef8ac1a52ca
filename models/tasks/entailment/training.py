"""Learn which sentence may be inferred from which (Vendrov et al., section 5)."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from models.checkpoints.checkpoint import Checkpoint
from models.encoders.text_encoder import Members
from models.evaluation.threshold import Threshold, best_threshold
from models.tasks.entailment.embedding import SentenceConfig, SentenceEmbedding
from models.tasks.entailment.pairs import Corpus, EntailmentError, labels
from models.training.schedule import LARGEST
from models.vocabulary import UNKNOWN, Vocabulary


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
        """Refuse what cannot be trained with (ValueError)."""
        if self.epochs < 0 or self.batch_size < 1:
            raise ValueError("epochs is at least 0, batch_size at least 1")
        above = (self.learning_rate, self.margin, self.clip_norm)
        if not all(0 < each <= LARGEST for each in above):
            raise ValueError(
                f"learning_rate, margin and clip_norm are above 0 and at most {LARGEST:g}"
            )
        if not 0 <= self.seed < 2**63:
            raise ValueError("seed is a whole number from 0 to 2^63 - 1")


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a training is; `threshold` is there after the last step of an epoch."""

    epoch: int
    step: int
    steps: int
    loss: float
    threshold: Threshold | None = None
    best: bool = False


Report = Callable[[Progress], None]
Keep = Callable[[SentenceEmbedding, Threshold], None]


def start_from(checkpoint: Checkpoint, config: EntailmentTraining) -> EntailmentTraining:
    """Give a training the shape of a retrieval model's caption encoder.

    Of several members it is the first one's. A length that it has learned stays learned; a unit
    length is what the training says.

    Raises:
        EntailmentError: the model compares captions in another way.
    """
    comparison = {"order": "order", "cosine": "symmetric"}.get(checkpoint.model.config.score)
    if comparison is None:
        raise EntailmentError(
            f"{checkpoint.folder} compares by {checkpoint.model.config.score}, as no model of "
            f"entailment does: choose a --start of the score order or cosine"
        )
    if comparison != config.model.comparison:
        raise EntailmentError(
            f"{checkpoint.folder} compares by {checkpoint.model.config.score} and cannot start a "
            f"model that compares by {config.model.comparison}: choose the other --comparison"
        )
    of = checkpoint.model.config
    shape = replace(
        config.model,
        dimension=of.dimension // of.members,
        word_dimension=of.word_dimension,
        word_range=of.word_range,
        max_words=of.max_words,
        reading=of.reading,
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
    learned = start.model.vocabulary.words
    known = set(learned)
    vocabulary = Vocabulary([*learned, *(word for word in own.words if word not in known)])
    model = SentenceEmbedding(config.model, vocabulary)
    encoder = start.model.captions
    first = encoder.encoders[0] if isinstance(encoder, Members) else encoder
    weights = {key: value.clone() for key, value in first.state_dict().items()}
    table = weights["embedding.weight"]
    unknown = table[UNKNOWN].expand(len(vocabulary) - len(table), -1)
    model.captions.load_state_dict(weights | {"embedding.weight": torch.cat((table, unknown))})
    return model


def train(
    config: EntailmentTraining,
    model: SentenceEmbedding,
    corpus: Corpus,
    *,
    report: Report | None = None,
    keep: Keep | None = None,
    stop: Callable[[], bool] | None = None,
) -> tuple[SentenceEmbedding, Threshold]:
    """Train a model, and return it as it was best in validation, at the start or after an epoch.

    Args:
        config: how.
        model: where to start, see `initial`; it is changed.
        corpus: what to learn from, and what to choose the threshold and the epoch by.
        report: told of every step and every epoch.
        keep: given the model and its threshold as it begins, and whenever an epoch is better.
        stop: asked before every step; when true, the best so far is returned.
    """
    held = labels(corpus.validation)

    def measure() -> Threshold:
        model.eval()
        return best_threshold(model.penalties(corpus.validation), held)

    best = measure()
    kept = copy.deepcopy(model)
    if keep is not None:
        keep(model, best)
    optimizer = torch.optim.Adam(model.parameters(), config.learning_rate)
    draw = np.random.default_rng([config.seed, 1])
    steps = math.ceil(len(corpus.train) / config.batch_size)
    tokens = {
        text: model.tokens(text)
        for pair in corpus.train
        for text in (pair.premise, pair.hypothesis)
    }
    true = torch.from_numpy(labels(corpus.train))
    for epoch in range(config.epochs):
        model.train()
        order, total = draw.permutation(len(corpus.train)), 0.0
        for step in range(steps):
            if stop is not None and stop():
                return kept, best
            rows = order[step * config.batch_size : (step + 1) * config.batch_size]
            pairs = [corpus.train[row] for row in rows]
            sides = [pair.premise for pair in pairs] + [pair.hypothesis for pair in pairs]
            premises, hypotheses = model([tokens[text] for text in sides]).chunk(2)
            penalty, entailed = model.compare(premises, hypotheses), true[rows].to(premises.device)
            loss = torch.where(entailed, penalty, (config.margin - penalty).clamp(min=0)).sum()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            for weight in model.parameters():
                torch.nn.utils.clip_grad_norm_(weight, config.clip_norm)
            optimizer.step()
            total += float(loss.detach()) / len(pairs)
            if report is not None:
                report(Progress(epoch, step + 1, steps, total / (step + 1)))
        threshold = measure()
        better = threshold.accuracy > best.accuracy
        if better:
            best, kept = threshold, copy.deepcopy(model)
            if keep is not None:
                keep(model, best)
        if report is not None:
            report(Progress(epoch, steps, steps, total / steps, threshold, better))
    return kept, best
