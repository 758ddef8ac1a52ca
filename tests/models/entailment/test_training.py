from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from models import checkpoint as retrieval
from models import entailment
from models.entailment import checkpoint
from models.entailment.checkpoint import EntailmentCheckpoint
from models.entailment.embedding import SentenceConfig, SentenceEmbedding
from models.entailment.evaluation import evaluate, evaluate_majority
from models.entailment.pairs import Corpus, EntailmentError, Pair
from models.entailment.training import EntailmentTraining, Progress, initial, start_from, train
from models.model import ModelConfig, OrderEmbedding
from models.model_folder import CheckpointError
from models.pictures import Preprocessing
from models.threshold import Threshold
from models.vocabulary import Vocabulary, words
from tests.models.entailment.corpora import snli
from tests.tiny import tiny_checkpoint

SMALL = EntailmentTraining(
    SentenceConfig(dimension=24, word_dimension=12, word_range=1.0),
    epochs=12,
    batch_size=8,
    learning_rate=0.01,
)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return entailment.read(snli(tmp_path_factory.mktemp("snli")))


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


def test_the_majority_answers_what_is_more_frequent(corpus: Corpus) -> None:
    found = evaluate_majority(corpus.train, corpus.test)
    assert found.accuracy == pytest.approx(75)
    assert found.average_precision is None
    assert evaluate_majority([Pair("a", "b", entailed=True)], corpus.test).accuracy == 25


def test_the_best_epoch_is_kept_and_told_of(corpus: Corpus) -> None:
    told: list[Progress] = []
    kept: list[Threshold] = []
    config = replace(SMALL, epochs=4)
    _, best = train(
        config,
        initial(config, corpus),
        corpus,
        report=told.append,
        keep=lambda model, threshold: kept.append(threshold),
    )
    ends = [now for now in told if now.threshold is not None]
    assert [now.epoch for now in ends] == [0, 1, 2, 3]
    assert kept[-1] == best
    assert len(kept) == 1 + sum(now.best for now in ends)
    assert best.accuracy >= max(now.threshold.accuracy for now in ends if now.threshold)


def test_an_epoch_that_is_only_as_good_is_not_better(corpus: Corpus) -> None:
    told: list[Progress] = []
    kept: list[Threshold] = []
    still = replace(SMALL, epochs=2, learning_rate=1e-30)
    train(
        still,
        initial(still, corpus),
        corpus,
        report=told.append,
        keep=lambda model, threshold: kept.append(threshold),
    )
    assert not any(now.best for now in told)
    assert len(kept) == 1, "the beginning"


def test_a_training_that_is_stopped_returns_the_best_so_far(corpus: Corpus) -> None:
    steps: list[Progress] = []
    train(SMALL, initial(SMALL, corpus), corpus, report=steps.append, stop=lambda: len(steps) > 2)
    assert len(steps) == 3


def test_a_pair_is_compared_alike_alone_and_among_others(
    corpus: Corpus, learned: tuple[SentenceEmbedding, Threshold]
) -> None:
    model, _ = learned
    every = model.penalties(corpus.test, batch_size=7)
    alone = [model.penalties([pair])[0] for pair in corpus.test[:5]]
    np.testing.assert_allclose(every[:5], alone, atol=1e-6)


def test_a_retrieval_model_is_a_starting_point(corpus: Corpus, tmp_path: Path) -> None:
    begun = retrieval.load(tiny_checkpoint(tmp_path / "model"))
    config = start_from(begun, replace(SMALL, model=replace(SMALL.model, length="unit")))
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
        backbone="shufflenet_v2_x0_5", dimension=12, word_dimension=8, reading="join", members=3
    )
    known = Vocabulary(["a", "dog", "runs"])
    saved = OrderEmbedding(shape, known, Preprocessing(resize=36, crop=32)).eval()
    retrieval.save(tmp_path, saved, "several", {})
    begun = retrieval.load(tmp_path)
    config = start_from(begun, replace(SMALL, model=replace(SMALL.model, length="unit")))
    model = initial(config, corpus, begun)
    for text in ("a dog runs", "a horse runs"):  # a word more begins as what is unknown was read
        points = torch.from_numpy(begun.model.encode_captions([text]))
        with torch.inference_mode():
            found = model([model.tokens(text)])
        torch.testing.assert_close(found, begun.model.parts(points)[0])
    assert model.vocabulary.knows("horse")


def test_a_length_that_was_learned_stays_learned(tmp_path: Path) -> None:
    shape = ModelConfig(
        backbone="shufflenet_v2_x0_5", dimension=4, word_dimension=8, length="learned"
    )
    saved = OrderEmbedding(shape, Vocabulary(["a"]), Preprocessing(resize=36, crop=32)).eval()
    retrieval.save(tmp_path, saved, "learned", {})
    assert start_from(retrieval.load(tmp_path), SMALL).model.length == "learned"


def test_pairs_of_which_none_is_entailed_have_no_average_precision(
    learned: tuple[SentenceEmbedding, Threshold],
) -> None:
    model, threshold = learned
    found = evaluate(model, threshold.value, [Pair("a dog", "a cat", entailed=False)])
    assert found.average_precision is None


def _learned(found: tuple[SentenceEmbedding, Threshold]) -> tuple[SentenceEmbedding, float]:
    return found[0], found[1].value


def test_a_start_that_compares_otherwise_is_refused(tmp_path: Path) -> None:
    cosine = retrieval.load(tiny_checkpoint(tmp_path / "model", "cosine"))
    with pytest.raises(EntailmentError, match="compares by cosine and cannot start"):
        start_from(cosine, SMALL)
    reverse = retrieval.load(tiny_checkpoint(tmp_path / "reverse", "order-reversed"))
    for comparison in ("order", "symmetric"):
        shape = replace(SMALL.model, comparison=comparison)
        with pytest.raises(EntailmentError, match="as no model of entailment does"):
            start_from(reverse, replace(SMALL, model=shape))


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
    for name in ("model.safetensors", "vocabulary.json", "config.json"):
        whole = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(whole[:-20])
        with pytest.raises(CheckpointError, match=f"{name} .*damaged|damaged: .*{name}"):
            checkpoint.load(tmp_path)
        (tmp_path / name).unlink()
        with pytest.raises(CheckpointError, match=f"has no {name}"):
            checkpoint.load(tmp_path)
        (tmp_path / name).write_bytes(whole)


@pytest.mark.parametrize(
    "wrong", [{"epochs": -1}, {"margin": 0.0}, {"learning_rate": -1.0}, {"learning_rate": 1e38}]
)
def test_a_training_that_cannot_be_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"at least|above 0"):
        EntailmentTraining(**wrong)  # type: ignore[arg-type]


def test_pairs_without_words_are_said(corpus: Corpus) -> None:
    silent = replace(corpus, train=(Pair("...", "!?", entailed=True),))
    with pytest.raises(EntailmentError, match="have no words"):
        initial(SMALL, silent)
