from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hasse.lab.checkpoints import learned_model
from hasse.lab.checkpoints.learned_model import order_embedding_of
from hasse.lab.encoders.order_embedding import OrderEmbedding
from hasse.lab.training.run import Progress, TrainingError
from hasse.models.encoders.model_config import MAX_COORDINATES, ModelConfig
from hasse.models.images.preprocessing import Preprocessing
from hasse.models.vocabulary import Vocabulary, words
from hasse.studies.bootstrap import interval
from hasse.studies.entailment import checkpoint
from hasse.studies.entailment.checkpoint import EntailmentCheckpoint
from hasse.studies.entailment.corpus import Corpus, SentencePair, labels, read
from hasse.studies.entailment.embedding import SentenceConfig, SentenceEmbedding
from hasse.studies.entailment.training import (
    EntailmentRun,
    EntailmentTraining,
    evaluate,
    evaluate_majority,
    initial,
    start_from,
)
from hasse.studies.grounding.sentence_model import SentenceModelConfig
from hasse.studies.labelled_pairs import Accuracy, Threshold, best_threshold
from tests.studies.entailment.corpora import snli
from tests.tiny import TINY, tiny_checkpoint, tiny_model

SMALL = EntailmentTraining(
    SentenceConfig(dimension=24, word_dimension=12, word_range=1.0),
    epochs=12,
    batch_size=8,
    learning_rate=0.01,
)


def train(
    config: EntailmentTraining,
    model: SentenceEmbedding,
    corpus: Corpus,
    report: Callable[[Progress[Threshold]], None] | None = None,
    keep: Callable[[SentenceEmbedding, Threshold], object] | None = None,
) -> tuple[SentenceEmbedding, Threshold]:
    run = EntailmentRun(config, model, corpus)
    run.save_best = keep or run.save_best
    return run.train(report)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return read(snli(tmp_path_factory.mktemp("snli")))


@pytest.fixture(scope="module")
def learned(corpus: Corpus) -> tuple[SentenceEmbedding, Threshold]:
    return train(SMALL, initial(SMALL, corpus), corpus)


def test_the_order_learns_what_a_symmetric_comparison_cannot(
    corpus: Corpus, learned: tuple[SentenceEmbedding, Threshold]
) -> None:
    model, threshold = learned
    of_order = evaluate(model, threshold.value, corpus.test)
    other = replace(SMALL, model=replace(SMALL.model, comparison="symmetric"))
    control, cut = train(other, initial(other, corpus), corpus)
    assert of_order.accuracy > evaluate_majority(corpus.train, corpus.test).accuracy
    assert of_order.accuracy > evaluate(control, cut.value, corpus.test).accuracy
    assert of_order.low <= of_order.accuracy <= of_order.high
    assert of_order.average_precision is not None


def test_the_majority_answers_what_is_more_frequent(corpus: Corpus) -> None:
    found = evaluate_majority(corpus.train, corpus.test)
    assert found.accuracy == pytest.approx(75)
    assert found.average_precision is None
    assert evaluate_majority([SentencePair("a", "b", entailed=True)], corpus.test).accuracy == 25


def test_what_is_measured_is_in_percent_and_its_interval_too() -> None:
    right, true = np.array([True, True, False, True] * 5), np.array([True, False] * 10)
    penalty = np.arange(20, dtype=np.float32)
    found = Accuracy.of(right, true, penalty)
    assert (found.accuracy, found.pairs, found.true) == (75, 20, 10)
    assert (found.low / 100, found.high / 100) == pytest.approx(interval(right))
    expected = np.mean([hits / (2 * hits - 1) for hits in range(1, 11)])
    assert found.average_precision == pytest.approx(100 * expected)


def test_the_best_epoch_is_kept_and_told_of(corpus: Corpus) -> None:
    told: list[Progress[Threshold]] = []
    kept: list[Threshold] = []
    config = replace(SMALL, epochs=4)
    _, best = train(
        config,
        initial(config, corpus),
        corpus,
        report=told.append,
        keep=lambda model, threshold: kept.append(threshold),
    )
    ends = [now for now in told if now.measurement is not None]
    assert [now.epoch for now in ends] == [0, 1, 2, 3]
    assert kept[-1] == best
    assert len(kept) == 1 + sum(now.best for now in ends)
    assert best.accuracy >= max(now.measurement.accuracy for now in ends if now.measurement)


def test_the_model_that_is_returned_is_the_best_epochs_and_not_the_last(corpus: Corpus) -> None:
    told: list[Progress[Threshold]] = []
    for seed in range(5):
        wild = replace(SMALL, epochs=4, learning_rate=0.5, seed=seed)
        model, best = train(wild, initial(wild, corpus), corpus, report=told.append)
        assert best_threshold(model.penalties(corpus.validation), labels(corpus.validation)) == best
        if told[-1].measurement != best:
            return
    pytest.fail("the last epoch was always the best")


def test_the_loss_is_what_true_pairs_violate_and_false_ones_lack_to_the_margin(
    corpus: Corpus,
) -> None:
    still = replace(SMALL, epochs=1, learning_rate=1e-30, margin=0.01)
    model = initial(still, corpus)
    penalty, true = model.penalties(corpus.train), labels(corpus.train)
    losses = np.where(true, penalty, np.maximum(still.margin - penalty, 0))
    assert (penalty[~true] > still.margin).any(), "some lack nothing"
    told: list[Progress[Threshold]] = []
    train(still, model, corpus, report=told.append)
    assert len(losses) % still.batch_size == 0
    assert told[-1].loss == pytest.approx(losses.mean(), rel=1e-4)
    assert told[-2].loss == told[-1].loss, "of all steps so far"


def test_a_seed_decides_where_a_training_begins_and_in_which_order_it_reads(
    corpus: Corpus,
) -> None:
    begun = [initial(replace(SMALL, seed=seed), corpus) for seed in (0, 0, 1)]
    tables = [model.captions.state_dict()["embedding.weight"] for model in begun]
    assert tables[0].equal(tables[1])
    assert not tables[0].equal(tables[2])
    found: list[list[float]] = []
    for seed in (0, 0, 1):
        told: list[Progress[Threshold]] = []
        one = replace(SMALL, epochs=1, seed=seed)
        train(one, copy.deepcopy(begun[0]), corpus, report=told.append)
        found.append([now.loss for now in told])
    assert found[0] == found[1] != found[2]


def test_an_epoch_reads_all_pairs_and_gradients_are_no_longer_than_they_may_be(
    corpus: Corpus,
) -> None:
    short = replace(SMALL, epochs=1, batch_size=10, clip_norm=1e-3)
    model = initial(short, corpus)
    told: list[Progress[Threshold]] = []
    train(short, model, corpus, report=told.append)
    assert told[-1].step == told[-1].steps == 5, "also the last 8 of 48 pairs"
    lengths = [float(w.grad.norm()) for w in model.parameters() if w.grad is not None]
    assert max(lengths) == pytest.approx(1e-3, rel=1e-2)


def test_a_pair_is_compared_alike_alone_and_among_others(
    corpus: Corpus, learned: tuple[SentenceEmbedding, Threshold]
) -> None:
    model, _ = learned
    every = model.penalties(corpus.test, batch_size=7)
    rows = [0, 1, 20, -2, -1]
    alone = [model.penalties([corpus.test[row]])[0] for row in rows]
    np.testing.assert_allclose(every[rows], alone, atol=1e-6)


def test_a_retrieval_model_is_a_starting_point(corpus: Corpus, tmp_path: Path) -> None:
    begun = learned_model.load(tiny_checkpoint(tmp_path / "model"))
    config = start_from(
        begun, replace(SMALL, model=replace(SMALL.model, length="unit", max_words=3))
    )
    assert config.model.dimension == begun.model.config.dimension
    model = initial(config, corpus, begun)
    captions = ["a dog runs in the park", "a red cat"]
    expected = begun.model.encode_captions(captions)
    with torch.inference_mode():
        found = model([model.tokens(text) for text in captions])
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-6)
    known = set(model.vocabulary.words)
    assert {"field", "horse"} <= known >= set(words("a dog runs in the park"))
    assert evaluate(*_learned(train(replace(config, epochs=0), model, corpus)), corpus.test).pairs


def test_of_several_members_the_first_is_the_starting_point(corpus: Corpus, tmp_path: Path) -> None:
    torch.manual_seed(0)
    shape = ModelConfig(
        backbone=TINY,
        dimension=12,
        word_dimension=8,
        caption_pooling="max",
        ensemble=3,
    )
    known = Vocabulary(["a", "dog", "runs"])
    saved = OrderEmbedding(shape, known, Preprocessing(resize=36, crop=32)).eval()
    learned_model.save(tmp_path, saved, "several", {})
    begun = learned_model.load(tmp_path)
    config = start_from(begun, replace(SMALL, model=replace(SMALL.model, length="unit")))
    model = initial(config, corpus, begun)
    for text in ("a dog runs", "a horse runs"):  # a word more begins as what is unknown was read
        points = torch.from_numpy(begun.model.encode_captions([text]))
        with torch.inference_mode():
            found = model([model.tokens(text)])
        torch.testing.assert_close(found, order_embedding_of(begun).split_ensemble(points)[0])
    assert model.vocabulary.knows("horse")


def test_a_length_that_was_learned_stays_learned(tmp_path: Path) -> None:
    shape = ModelConfig(backbone=TINY, dimension=4, word_dimension=8, length="learned")
    saved = OrderEmbedding(shape, Vocabulary(["a"]), Preprocessing(resize=36, crop=32)).eval()
    learned_model.save(tmp_path, saved, "learned", {})
    assert start_from(learned_model.load(tmp_path), SMALL).model.length == "learned"


def test_pairs_of_which_none_is_entailed_have_no_average_precision(
    learned: tuple[SentenceEmbedding, Threshold],
) -> None:
    model, threshold = learned
    found = evaluate(model, threshold.value, [SentencePair("a dog", "a cat", entailed=False)])
    assert found.average_precision is None


def _learned(found: tuple[SentenceEmbedding, Threshold]) -> tuple[SentenceEmbedding, float]:
    return found[0], found[1].value


def test_a_start_that_compares_otherwise_is_refused(tmp_path: Path) -> None:
    cosine = learned_model.load(tiny_checkpoint(tmp_path / "model", "cosine"))
    with pytest.raises(TrainingError, match="compares by cosine and cannot start"):
        start_from(cosine, SMALL)
    reverse = learned_model.load(tiny_checkpoint(tmp_path / "reverse", "order-reversed"))
    for comparison in ("order", "symmetric"):
        shape = replace(SMALL.model, comparison=comparison)
        with pytest.raises(TrainingError, match="as no model of entailment does"):
            start_from(reverse, replace(SMALL, model=shape))
    model = tiny_model()
    model.config = SentenceModelConfig(**asdict(model.config), text_encoder="lstm")
    other = replace(cosine, model=model)
    with pytest.raises(TrainingError, match="by a GRU"):
        start_from(other, SMALL)


def test_a_checkpoint_compares_like_the_model_it_holds(
    corpus: Corpus, learned: tuple[SentenceEmbedding, Threshold], tmp_path: Path
) -> None:
    model, threshold = learned
    checkpoint.save(EntailmentCheckpoint(model, threshold.value, SMALL, {"a": 1}, tmp_path))
    loaded = checkpoint.load(tmp_path)
    assert (loaded.threshold, loaded.training, loaded.metrics) == (
        threshold.value,
        SMALL,
        {"a": 1},
    )
    np.testing.assert_array_equal(loaded.model.penalties(corpus.test), model.penalties(corpus.test))


@pytest.mark.parametrize(
    "wrong",
    [
        {"epochs": -1},
        {"batch_size": 0},
        {"margin": 0.0},
        {"clip_norm": 0.0},
        {"learning_rate": -1.0},
        {"learning_rate": 1e38},
        {"seed": -1},
        {"seed": 2**63},
    ],
)
def test_a_training_that_cannot_be_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(wrong))}.* (at least|above 0|from 0)"):
        EntailmentTraining(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"dimension": 0}, "dimension, word_dimension and max_words are at least 1"),
        ({"word_dimension": 0}, "dimension, word_dimension and max_words are at least 1"),
        ({"max_words": 0}, "dimension, word_dimension and max_words are at least 1"),
        ({"word_dimension": MAX_COORDINATES + 1}, "word_dimension are at most"),
        ({"word_range": 0.0}, "word_range is above 0"),
        ({"comparison": "cosine"}, "comparison is order or symmetric, not 'cosine'"),
        ({"pooling": "first"}, "pooling is last or max"),
        ({"length": "short"}, "length is unit, learned or free"),
    ],
)
def test_a_model_that_cannot_be_is_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        SentenceConfig(**wrong)


def test_a_premise_that_has_more_of_everything_entails_and_not_the_other_way() -> None:
    model = SentenceEmbedding(SMALL.model, Vocabulary(["a"]))
    more, less = torch.tensor([[0.5, 0.9]]), torch.tensor([[0.5, 0.2]])
    assert model.compare(more, less).item() == 0
    assert model.compare(less, more).item() == pytest.approx(0.49)


def test_the_symmetric_comparison_is_of_directions_whatever_the_length_says() -> None:
    shape = replace(SMALL.model, comparison="symmetric", length="free")
    model = SentenceEmbedding(shape, Vocabulary(["a", "dog"])).eval()
    with torch.inference_mode():
        points = model([model.tokens(text) for text in ("a", "a dog")])
    torch.testing.assert_close(points.norm(dim=1), torch.ones(2))


def test_pairs_without_words_are_said(corpus: Corpus) -> None:
    silent = replace(corpus, train=(SentencePair("...", "!?", entailed=True),))
    with pytest.raises(TrainingError, match="have no words"):
        initial(SMALL, silent)
