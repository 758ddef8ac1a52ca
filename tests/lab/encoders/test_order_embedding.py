from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import pytest
import torch
from PIL import Image
from torch.nn.functional import normalize

from hasse.lab.encoders.order_embedding import OrderEmbedding
from hasse.lab.encoders.pooling import pool_regions
from hasse.lab.encoders.text_encoder import CaptionEncoder, Ensemble
from hasse.lab.kernels.violations import penalties
from hasse.models.encoders.model_config import (
    MAX_COORDINATES,
    MAX_WORD_RANGE,
    CaptionPooling,
    ModelConfig,
)
from hasse.models.images.preprocessing import Preprocessing
from hasse.models.score import SCORES, Score
from hasse.models.vocabulary import Vocabulary
from tests.tiny import DIMENSION, TINY, tiny_model
from tests.tiny_network import FEATURES

PICTURES = [Image.new("RGB", (60, 40), colour) for colour in ("red", "navy", "olive")]


@pytest.mark.parametrize("score", SCORES)
def test_points_have_unit_length_and_order_points_no_negative_coordinate(score: Score) -> None:
    model = tiny_model(score)
    for points in (
        model.encode_captions(["a dog", "the red cat runs in the park"]),
        model.encode_images(PICTURES),
        model.encode_features(np.random.default_rng(0).random((4, FEATURES), dtype=np.float32)),
    ):
        assert points.dtype == np.float32
        np.testing.assert_allclose(np.linalg.norm(points, axis=1), 1, rtol=1e-5)
        assert (points.min() >= 0) == (score != "cosine")


def test_a_batch_encodes_as_each_item_alone() -> None:
    model = tiny_model()
    texts = ["a dog", "the red cat runs in the park", "", "a", "blue blue zeppelin"]
    alone = np.concatenate([model.encode_captions([text]) for text in texts])
    np.testing.assert_array_equal(model.encode_captions(texts, batch_size=2), alone)
    alone = np.concatenate([model.encode_images([picture]) for picture in PICTURES])
    np.testing.assert_allclose(model.encode_images(PICTURES, batch_size=2), alone, atol=1e-5)


@pytest.mark.parametrize(("pooling", "size"), [("last", 1), ("max", 1), ("last", 2)])
def test_captions_and_features_are_multiplied_in_the_type_that_is_chosen(
    pooling: CaptionPooling, size: int
) -> None:
    torch.manual_seed(0)
    shape = ModelConfig(
        backbone=TINY,
        dimension=DIMENSION,
        word_dimension=8,
        caption_pooling=pooling,
        ensemble=size,
    )
    words = Vocabulary(["a", "red", "dog"])
    model = OrderEmbedding(shape, words, Preprocessing(resize=36, crop=32)).eval()
    torch.nn.init.normal_(model.images.projection.bias)
    features = torch.from_numpy(np.random.default_rng(0).random((4, FEATURES), dtype=np.float32))
    read = model.tokens(["a dog", "a red dog"])

    def points() -> tuple[torch.Tensor, ...]:
        captions = model.split_ensemble(model.caption_points(*read))
        return *captions, model.feature_points(features)

    exact = points()
    model.set_matmul_dtype(torch.bfloat16)
    for rough, close in zip(points(), exact, strict=True):
        assert not rough.equal(close)
        torch.testing.assert_close(rough, close, atol=0.02, rtol=0)
    model.set_matmul_dtype(torch.float32)
    assert all(again.equal(first) for again, first in zip(points(), exact, strict=True))


def test_nothing_to_encode_gives_no_points() -> None:
    model = tiny_model()
    assert model.encode_captions([]).shape == (0, DIMENSION)
    assert model.encode_images([]).shape == (0, DIMENSION)


def test_a_caption_of_ten_thousand_words_is_read_to_its_limit() -> None:
    model = tiny_model()
    limit = model.config.max_words
    long, cut = model.encode_captions(["dog " * 10_000, "dog " * limit])
    np.testing.assert_array_equal(long, cut)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"score": "l2"}, "order, order-reversed, cosine"),
        ({"image_pooling": "all"}, "image_pooling is one of average, max, regions, not 'all'"),
        ({"dimension": 0}, "are at least 1"),
        ({"word_dimension": 0}, "are at least 1"),
        ({"max_words": 0}, "are at least 1"),
        ({"ensemble": 0}, "are at least 1"),
        ({"directions": "down"}, "directions is one of forward, both, not 'down'"),
        ({"hubness": -1}, "hubness is at least 0"),
        ({"hubness": 5, "length": "learned"}, "leave length at unit"),
        ({"dimension": MAX_COORDINATES + 1}, "at most 65,536"),
        ({"word_dimension": MAX_COORDINATES + 1}, "at most 65,536"),
        ({"word_range": 0.0}, "word_range is above 0"),
        ({"word_range": MAX_WORD_RANGE + 1}, "word_range is above 0 and at most 1000"),
        ({"dimension": 16, "ensemble": 3}, "an ensemble of 3 cannot share 16 coordinates equally"),
    ],
)
def test_model_config_refuses_impossible_values(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        ModelConfig(**wrong)


@pytest.mark.parametrize(
    ("size", "directions", "backwards"),
    [(1, "both", [False]), (3, "both", [False, True, False]), (2, "forward", [False, False])],
)
def test_directions_both_makes_every_second_member_read_backwards(
    size: int, directions: Literal["forward", "both"], backwards: list[bool]
) -> None:
    shape = ModelConfig(
        backbone=TINY,
        dimension=12,
        word_dimension=8,
        ensemble=size,
        directions=directions,
    )
    words = Vocabulary(["a", "red", "dog"])
    model = OrderEmbedding(shape, words, Preprocessing(resize=36, crop=32))
    assert [encoder.backwards for encoder in model.captions.encoders] == backwards


def test_model_config_accepts_its_largest_values() -> None:
    ModelConfig(
        dimension=MAX_COORDINATES, word_dimension=MAX_COORDINATES, word_range=MAX_WORD_RANGE
    )


@pytest.mark.parametrize("score", ["order", "cosine"])
def test_image_pooling_max_takes_the_largest_of_all_cells(score: Score) -> None:
    torch.manual_seed(0)
    config = ModelConfig(
        score=score,
        backbone="torchvision/resnet18",
        image_pooling="max",
        dimension=8,
        word_dimension=4,
    )
    model = OrderEmbedding(config, Vocabulary(["a"]), Preprocessing(36, 32, crops=10)).eval()
    pixels = torch.rand(3, 10, 3, 64, 64)
    features = model.images.features(pixels)
    assert features.shape == (3, 10 * 4, 512)
    parts = torch.stack([model.images.project(part[:, None]) for part in features.unbind(1)])
    torch.testing.assert_close(model.images(pixels), parts.amax(0))
    assert (model.images(pixels) < 0).any().item() == (score == "cosine")


@pytest.mark.parametrize("score", ["order", "cosine"])
def test_image_pooling_regions_adds_the_largest_and_the_mean(score: Score) -> None:
    torch.manual_seed(0)
    config = ModelConfig(
        score=score,
        backbone="torchvision/resnet18",
        image_pooling="regions",
        dimension=8,
        word_dimension=4,
    )
    model = OrderEmbedding(config, Vocabulary(["a"]), Preprocessing(96, 96)).eval()
    pixels = torch.rand(3, 1, 3, 96, 96)
    features = model.images.features(pixels)
    torch.testing.assert_close(features, pool_regions(model.images.backbone(pixels[:, 0])))
    each = model.images.projection(normalize(features, dim=-1))  # (3, REGIONS, 8)
    each = each if score == "cosine" else each.abs()
    torch.testing.assert_close(model.images(pixels), each.amax(1) + each.mean(1))
    assert (model.images(pixels) < 0).any().item() == (score == "cosine")


@pytest.mark.parametrize("score", ["order", "cosine"])
def test_caption_pooling_max_takes_the_largest_of_all_states(score: Score) -> None:
    torch.manual_seed(0)
    config = ModelConfig(
        score=score,
        backbone="torchvision/resnet18",
        caption_pooling="max",
        dimension=8,
        word_dimension=4,
    )
    model = OrderEmbedding(config, Vocabulary(["a", "red", "dog"]), Preprocessing(36, 32)).eval()
    tokens, lengths = model.tokens(["a red dog", "dog"])
    assert isinstance(model.captions, CaptionEncoder)
    vectors = model.captions.embedding(tokens)
    for row, length in enumerate(lengths.tolist()):
        alone = vectors[row : row + 1]
        states = [model.captions.gru(alone, torch.tensor([t + 1])) for t in range(length)]
        every = torch.cat(states) if score == "cosine" else torch.cat(states).abs()
        torch.testing.assert_close(model.captions(tokens, lengths)[row], every.amax(0))


def test_a_learned_length_shortens_captions_and_not_images() -> None:
    torch.manual_seed(0)
    words = Vocabulary(["a", "red", "dog"])
    shape = ModelConfig(
        backbone=TINY,
        dimension=DIMENSION,
        word_dimension=8,
        length="learned",
    )
    model = OrderEmbedding(shape, words, Preprocessing(resize=36, crop=32)).eval()
    assert isinstance(model.captions, CaptionEncoder)
    assert model.captions.length_head is not None
    torch.nn.init.normal_(model.captions.length_head.weight)
    captions = np.linalg.norm(model.encode_captions(["a dog", "a red dog", ""]), axis=1)
    assert (captions > 0).all()
    assert (captions < 1).all()
    assert len(set(captions.round(4).tolist())) == 3
    np.testing.assert_allclose(np.linalg.norm(model.encode_images(PICTURES), axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize("score", SCORES)
def test_the_penalty_of_an_ensemble_is_the_mean_of_its_members(score: Score) -> None:
    torch.manual_seed(0)
    shape = ModelConfig(
        score=score,
        backbone=TINY,
        dimension=12,
        word_dimension=8,
        ensemble=3,
    )
    words = Vocabulary(["a", "red", "dog"])
    model = OrderEmbedding(shape, words, Preprocessing(resize=36, crop=32)).eval()
    captions = torch.from_numpy(model.encode_captions(["a dog", "a red dog", ""]))
    images = torch.from_numpy(model.encode_images(PICTURES))
    np.testing.assert_allclose(captions.norm(dim=1), 1, rtol=1e-5)
    np.testing.assert_allclose(images.norm(dim=1), 1, rtol=1e-5)
    theirs = []
    for at, (image_part, caption_part) in enumerate(
        zip(model.split_ensemble(images), model.split_ensemble(captions), strict=True)
    ):
        tokens, lengths = model.tokens(["a dog", "a red dog", ""])
        assert isinstance(model.captions, Ensemble)
        torch.testing.assert_close(
            model.captions.encoders[at].points(tokens, lengths), caption_part
        )
        theirs.append(penalties(score, image_part, caption_part))
    assert not torch.allclose(theirs[0], theirs[1])
    torch.testing.assert_close(penalties(score, images, captions), torch.stack(theirs).mean(0))


@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.parametrize(("score", "length"), [("order", "learned"), ("cosine", "unit")])
def test_renumbered_coordinates_are_the_same_in_another_order(
    score: Score, length: str, size: int
) -> None:
    torch.manual_seed(0)
    shape = ModelConfig(
        score=score,
        backbone=TINY,
        dimension=DIMENSION,
        word_dimension=8,
        length=length,  # type: ignore[arg-type]
        ensemble=size,
    )
    words = Vocabulary(["a", "red", "dog"])
    model = OrderEmbedding(shape, words, Preprocessing(resize=36, crop=32)).eval()
    for weight in model.captions.parameters():
        torch.nn.init.normal_(weight)
    torch.nn.init.normal_(model.images.projection.bias)
    texts = ["a dog", "a red dog", ""]
    captions, images = model.encode_captions(texts), model.encode_images(PICTURES)
    order = model.heaviest_first(captions)
    assert order.sort().values.equal(torch.arange(DIMENSION))
    model.renumber(order)
    np.testing.assert_allclose(model.encode_captions(texts), captions[:, order], atol=1e-6)
    np.testing.assert_allclose(model.encode_images(PICTURES), images[:, order], atol=1e-6)
    assert not np.allclose(model.encode_captions(texts), captions, atol=1e-3)
    weights = np.square(captions[:, order]).mean(0).reshape(size, -1)
    assert (np.diff(weights, axis=1) <= 0).all()


def test_model_config_refuses_an_unknown_length() -> None:
    with pytest.raises(ValueError, match="length is one of unit, learned, not 'long'"):
        ModelConfig(length="long")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="for the score order only"):
        ModelConfig(score="cosine", length="learned")


def test_the_map_from_features_begins_as_that_of_the_reference() -> None:
    projection = tiny_model().images.projection
    most = math.sqrt(6 / (FEATURES + DIMENSION))
    assert 0.99 * most < projection.weight.max() <= most
    assert -most <= projection.weight.min() < -0.99 * most
    assert not projection.bias.any()


def test_model_config_refuses_an_unknown_caption_pooling() -> None:
    with pytest.raises(ValueError, match="one of last, max"):
        ModelConfig(caption_pooling="first")  # type: ignore[arg-type]
