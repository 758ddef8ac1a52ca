"""Sentences grounded in pictures or in other captions: Cap2Img, Cap2Cap, Cap2Both, Cap2Order."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from hasse.lab.checkpoints import learned_model
from hasse.lab.checkpoints.learned_model import order_embedding_of
from hasse.lab.training.config import TrainingConfig
from hasse.lab.training.inputs import TrainingInputs
from hasse.lab.training.lesson import Lesson, Measurement
from hasse.lab.training.recipe import Recipe, find
from hasse.lab.training.run import Progress, TrainingError, TrainingStopped
from hasse.lab.training.trainer import RetrievalTraining
from hasse.models.checkpoints.model_folder import CheckpointError
from hasse.models.vocabulary import words
from hasse.studies.grounding.command import RECIPES_OF_GROUNDING
from hasse.studies.grounding.decoder import DecodingLesson, DecodingOptions
from hasse.studies.grounding.sentence_model import (
    NoImages,
    SentenceModelConfig,
    encode_states,
    encode_words,
    sentence_encoder,
)
from hasse.studies.grounding.word_vectors import WordVectorLesson, WordVectors
from tests.lab.training.colours import CONFIG, collection, features, stop_after, weights
from tests.tiny_network import FEATURES

SIZE = 6
GROUNDED = ("cap2img", "cap2cap", "cap2both", "cap2order")


def vectors() -> WordVectors:
    """Return vectors of the words of all captions, and of one that none has."""
    known = sorted({word for caption in collection().captions for word in words(caption.text)})
    rows = {word: row for row, word in enumerate([*known, "unseen"])}
    draw = np.random.default_rng(0)
    return WordVectors(rows, draw.normal(size=(len(rows), SIZE)).astype(np.float32))


def named(recipe: str) -> Recipe:
    path = find(recipe, (RECIPES_OF_GROUNDING,))
    return Recipe.read(path, (DecodingOptions(),), SentenceModelConfig())


def shape_of(config: TrainingConfig) -> SentenceModelConfig:
    assert isinstance(config.model, SentenceModelConfig)
    return config.model


def config(recipe: str, **changes: Any) -> TrainingConfig:
    start = named(recipe).config
    shape = shape_of(start)
    dimension = {"identity": FEATURES, "none": 8, "linear": 12}[shape.image_map]
    model = replace(
        shape,
        dropout=changes.pop("dropout", shape.dropout),
        backbone=CONFIG.model.backbone,
        states=8,
        word_dimension=SIZE,
        dimension=dimension,
    )
    few: dict[str, Any] = {"epochs": 4, "batch_size": 4, "learning_rate": 0.01, "min_word_count": 1}
    looks = CONFIG.preprocessing
    return replace(start, model=model, preprocessing=looks, saved_dtype="float32", **few | changes)


def training(folder: Path, config: TrainingConfig, decoding: float = 0.0) -> RetrievalTraining:
    dataset = collection()
    ids = np.array([image.id for image in dataset.images])
    has_images = shape_of(config).image_map != "none"
    data = dataset, features(dataset) if has_images else NoImages(ids)
    lessons: list[Lesson] = [WordVectorLesson(vectors())]
    if decoding:
        lessons.append(DecodingLesson(DecodingOptions(decoding)))
    return RetrievalTraining(config, folder, TrainingInputs(data, data), lessons)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"text_encoder": "transducer"}, "one of gru, bilstm, lstm, sum, not 'transducer'"),
        ({"states": -1}, "states is at least 0"),
        ({"word_vectors": "none"}, "word_vectors is one of learned, fixed"),
        ({"dropout": 1.0}, "dropout is a share"),
        ({"image_map": "none"}, "needs the score cosine"),
        ({"image_map": "identity", "ensemble": 2}, "needs ensemble 1"),
        ({"dimension": 0}, "are at least 1"),
    ],
)
def test_shape_of_a_sentence_model_refuses_impossible_values(
    wrong: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        SentenceModelConfig(**wrong)


@pytest.mark.parametrize("recipe", GROUNDED)
def test_recipe_learns_on_fixed_vectors_and_encodes_as_saved(tmp_path: Path, recipe: str) -> None:
    losses: list[float] = []

    def report(progress: Progress[Measurement]) -> None:
        if progress.measurement is not None:
            losses.append(progress.loss)

    chosen = config(recipe, epochs=15, validate_every=5, patience=15, dropout=0.1)
    (options,) = named(recipe).lessons
    run = training(tmp_path, chosen, options.decoding)
    run.train(report)
    assert losses[-1] < 0.9 * losses[0]
    loaded = learned_model.load(tmp_path, with_pictures=shape_of(chosen).image_map != "none")
    model = order_embedding_of(loaded)
    encoder = sentence_encoder(model)
    assert encoder is not None
    fixed = encoder.embedding.weight[torch.tensor(model.vocabulary.encode("unseen red", 2)[:2])]
    given = vectors()
    expected = given.vectors[[given.rows["unseen"], given.rows["red"]]]
    np.testing.assert_array_equal(fixed.detach().numpy(), expected)

    texts = ["red", "a dark blue picture", "unseen"]
    points, states = model.encode_captions(texts), encode_states(model, texts)
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), 1, atol=1e-5)
    assert (points.shape[1], states.shape[1]) == (chosen.model.dimension, 8)
    one_by_one = np.concatenate([encode_states(model, [text]) for text in texts])
    np.testing.assert_allclose(states, one_by_one, atol=1e-6)
    mapped = encode_words(model, ["red", "unseen"])
    assert encoder.word_map is not None
    by_hand = nn.functional.linear(torch.from_numpy(expected[::-1].copy()), encoder.word_map.weight)
    np.testing.assert_allclose(mapped, by_hand.detach().numpy(), atol=1e-6)


def test_points_of_images_are_their_features_where_those_are_fixed(tmp_path: Path) -> None:
    model = training(tmp_path, config("cap2img")).model
    rows = np.random.default_rng(0).random((2, FEATURES), dtype=np.float32)
    expected = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    np.testing.assert_allclose(model.encode_features(rows), expected, atol=1e-6)


def test_decoder_writes_what_is_told_of_an_image_better_after_learning(tmp_path: Path) -> None:
    found: list[float] = []

    def report(progress: Progress[Measurement]) -> None:
        if progress.measurement is not None:
            found.append(-progress.measurement.quality)

    chosen = config("cap2cap", epochs=12, validate_every=6, patience=12)
    training(tmp_path, chosen, 1.0).train(report)
    assert 1 < found[-1] < 0.6 * found[0]


def test_model_without_images_is_refused_where_pictures_are_encoded(tmp_path: Path) -> None:
    training(tmp_path, config("cap2cap", epochs=1), 1.0).train()
    with pytest.raises(CheckpointError, match=r"captions alone.*hasse lab embed.*cap2both"):
        learned_model.load(tmp_path)


def test_resumed_training_with_dropout_and_a_decoder_ends_with_the_same_weights(
    tmp_path: Path,
) -> None:
    chosen = config("cap2both")
    training(tmp_path / "straight", chosen, 1.0).train()
    with pytest.raises(TrainingStopped):
        training(tmp_path / "stopped", chosen, 1.0).train(stop=stop_after(5))
    training(tmp_path / "stopped", chosen, 1.0).train()
    assert weights(tmp_path / "straight") == weights(tmp_path / "stopped")


@pytest.mark.parametrize("changes", [{"captions_per_image": 1}, {"ensemble": 2}])
def test_decoding_without_two_captions_or_with_an_ensemble_is_refused(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    start = replace(config("cap2order"), captions_per_image=2)
    chosen = Recipe(start).with_options(changes).config
    with pytest.raises(TrainingError, match="decoding needs ensemble 1 and captions_per_image"):
        training(tmp_path, chosen, 1.0)


@pytest.mark.parametrize(("name", "unit"), [("mnlm", "lstm"), ("mnlm-linear", "sum")])
def test_recipes_of_kiros_have_the_papers_numbers(name: str, unit: str) -> None:
    config = named(name).config
    assert (shape_of(config).text_encoder, config.model.score) == (unit, "cosine")
    assert (config.model.dimension, config.model.word_dimension) == (300, 300)
    assert (config.batch_size, config.margin, config.loss) == (40, 0.2, "ranking")
    assert (config.optimizer, config.learning_rate) == ("sgd", 1.0)


@pytest.mark.parametrize("name", GROUNDED)
def test_recipes_of_kiela_have_the_papers_encoder(name: str) -> None:
    config, (options,) = named(name).config, named(name).lessons
    model = shape_of(config)
    assert (model.text_encoder, model.states, model.word_vectors) == ("bilstm", 1024, "fixed")
    assert (model.dropout, config.optimizer) == (0.5, "adam")
    assert model.image_map == {"cap2cap": "none", "cap2order": "linear"}.get(name, "identity")
    assert model.score == ("order" if name == "cap2order" else "cosine")
    assert bool(options.decoding) == (name in {"cap2cap", "cap2both"})
