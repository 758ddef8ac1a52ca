"""The built-in grounded model: its two parts, and how it is written and read."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from hasse.models.checkpoints import checkpoint
from hasse.models.checkpoints.checkpoint import BASE, Checkpoint
from hasse.models.checkpoints.model_folder import CONFIG, CheckpointError
from hasse.models.checkpoints.named_models import pretrained
from hasse.models.encoders.regions import REGIONS
from hasse.models.grounding.boxes import find_boxes
from hasse.models.grounding.grounded_model import GroundedModel
from hasse.models.grounding.grounded_texts import SCALE
from hasse.models.score import penalties_between


@pytest.fixture(scope="module")
def loaded() -> Checkpoint:
    return checkpoint.load(pretrained("photographs"))


@pytest.fixture(scope="module")
def model(loaded: Checkpoint) -> GroundedModel:
    assert isinstance(loaded.model, GroundedModel)
    return loaded.model


def violation(model: GroundedModel, premise: str, hypothesis: str) -> float:
    first = model.as_premises(model.encode_captions([premise]))
    return float(penalties_between("order", first, model.encode_captions([hypothesis]))[0, 0])


def test_points_have_the_dimension_of_the_configuration(model: GroundedModel) -> None:
    assert model.encode_captions(["a dog", ""]).shape == (2, 1536)
    features = np.random.default_rng(0).random((3, REGIONS, 1280), np.float32)
    points = model.encode_features(features)
    assert points.shape == (3, 1536)
    assert points.min() >= 0


def test_a_point_does_not_depend_on_those_beside_it(model: GroundedModel) -> None:
    texts = ["a dog", "two men play football on a field", "a giraffe", "food"]
    together = model.encode_captions(texts)
    alone = np.concatenate([model.encode_captions([text]) for text in texts])
    np.testing.assert_array_equal(together, alone)


def test_grounded_coordinates_of_a_text_hold_those_of_a_more_general_one(
    model: GroundedModel,
) -> None:
    dog, animal = model.as_premises(model.encode_captions(["a poodle", "an animal"]))[:, 640:]
    assert animal.any()
    assert (dog >= animal).all()
    assert dog.max() == pytest.approx(SCALE)


@pytest.mark.parametrize(
    ("premise", "follows", "does_not"),
    [
        ("a poodle on a beach", "an animal", "a cat"),
        ("a dog", "an animal", "a cat"),
        ("a red fire truck in a street", "a vehicle", "a boat"),
        ("a violin", "a musical instrument", "a piece of furniture"),
    ],
)
def test_what_follows_violates_less_than_what_does_not(
    model: GroundedModel, premise: str, follows: str, does_not: str
) -> None:
    assert violation(model, premise, follows) < 0.5 * violation(model, premise, does_not)


def test_texts_are_calibrated_as_well_as_pictures(loaded: Checkpoint) -> None:
    judge, model = loaded.judge("caption"), loaded.model
    assert judge is not None
    premise = model.as_premises(model.encode_captions(["a brown dog on a beach"]))
    found = judge.probabilities(["an animal", "a cat"], premise[[0, 0]], ())
    assert (found >= 0.5).tolist() == [True, False]


def test_a_model_loaded_without_pictures_encodes_captions_alike(model: GroundedModel) -> None:
    texts_only, text = checkpoint.load(pretrained("photographs"), with_pictures=False), ["a dog"]
    found = texts_only.model.encode_captions(text)
    np.testing.assert_array_equal(found, model.encode_captions(text))


def test_points_in_the_base_are_nearly_those_of_the_base(
    loaded: Checkpoint, model: GroundedModel
) -> None:
    text = ["a man rides a bicycle in a street"]
    assert loaded.base is not None
    own, base = (
        model.in_base(model.encode_captions(text)),
        loaded.base.model.encode_captions(text),
    )
    cosine = (own @ base.T)[0, 0] / np.linalg.norm(own) / np.linalg.norm(base)
    assert cosine > 0.95


def test_a_grounded_model_on_another_base_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(pretrained("photographs"), folder)
    config = json.loads((folder / BASE / CONFIG).read_bytes()) | {"name": "other"}
    checkpoint.KIND.replace(folder / BASE, CONFIG, json.dumps(config).encode())
    with pytest.raises(CheckpointError, match=r"is not the model that .* was grounded on"):
        checkpoint.load(folder, with_pictures=False)


def test_points_by_openvino_are_nearly_those_by_onnx_runtime_and_the_same_alone() -> None:
    # In bfloat16 and in float32 on a processor that has both.
    rough = checkpoint.load(pretrained("photographs"), runtime="openvino").model
    model = checkpoint.load(pretrained("photographs"), runtime="onnxruntime").model
    noise = np.random.default_rng(0).integers(0, 255, (5, 9, 12, 3), np.uint8)
    pictures = [Image.fromarray(pixels).resize((300, 200)) for pixels in noise]
    expected, found = model.encode_images(pictures), rough.encode_images(pictures)
    assert found.dtype == np.float32
    cosines = (expected * found).sum(1)
    cosines /= np.linalg.norm(expected, axis=1) * np.linalg.norm(found, axis=1)
    assert cosines.min() > 0.99
    alone = np.concatenate([rough.encode_images([picture]) for picture in pictures])
    np.testing.assert_array_equal(alone, found)
    assert rough.backbone.fingerprint() == model.backbone.fingerprint()


def test_things_in_a_picture_are_found_at_twice_the_side(model: GroundedModel) -> None:
    looks = model.preprocessing.enlarged(2)
    assert (looks.crop, looks.framing) == (520, "whole")
    picture = Image.effect_mandelbrot((300, 200), (-2, -1, 1, 1), 50).convert("RGB")
    phrases = model.demands.phrases("a dog and an animal in a street")
    assert [phrase.text for phrase in phrases] == ["dog", "animal"]
    found = find_boxes(model, looks.apply(picture), phrases)
    assert found.shape == (2, 4)
    assert ((found >= 0) & (found <= 1)).all()


def test_taught_word_demands_its_own_evidence_and_implies_what_is_above_it(
    model: GroundedModel,
) -> None:
    taught = model.demands.taught_words
    for text in ("a motorcycle", "a horse", "riding", "red"):
        own = taught[text.removeprefix("a ")].own
        assert model.demands.of(text).row[own] == 1
    assert violation(model, "a motorcycle on a street", "a vehicle") < 0.5 * violation(
        model, "a motorcycle on a street", "an animal"
    )


def test_evidence_of_a_taught_general_word_is_at_least_that_of_its_kinds(
    model: GroundedModel,
) -> None:
    taught = model.evidence.taught
    assert taught is not None
    features = np.random.default_rng(0).random((8, REGIONS, 1280), np.float32)
    found = model.evidence.of(features)[:, -len(taught) :]
    general, kind = taught.kinds.T
    assert (found[:, general] >= found[:, kind]).all()
