from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from hasse.lab.checkpoints.learned_model import order_embedding_of
from hasse.lab.encoders.registry import build_backbone
from hasse.lab.evaluation.calibrating import calibrations
from hasse.lab.evaluation.ground_truth import known_ground_truth
from hasse.lab.evaluation.ranking import RankingMetrics, average_precisions
from hasse.lab.evaluation.retrieval import Evaluation, evaluate
from hasse.lab.kernels.violations import pairwise_violation
from hasse.lab.training.inputs import FeatureInput, ImageInput, TrainingInputs, dataset_points
from hasse.lab.training.lesson import Measurement
from hasse.lab.training.run import Progress, TrainingError
from hasse.lab.training.state import FILE_NAME
from hasse.lab.training.trainer import RetrievalTraining
from hasse.models.calibration import Calibration
from hasse.models.checkpoints.model_folder import WEIGHTS
from hasse.models.checkpoints.weights import WeightDtype
from hasse.models.datasets import Dataset, DatasetError
from hasse.models.encoders.names import LITE
from tests.lab.training.colours import (
    CONFIG,
    FewReferences,
    a_training,
    collection,
    features,
    pixels,
    run,
    scenes,
    weights,
    with_hubness,
)
from tests.tiny import TINY


def test_training_lowers_the_loss_and_raises_the_recall(tmp_path: Path) -> None:
    epochs: list[Progress[Measurement]] = []

    def report(progress: Progress[Measurement]) -> None:
        if progress.measurement is not None:
            epochs.append(progress)

    run(tmp_path, replace(CONFIG, epochs=30, patience=30), report=report)
    assert epochs[-1].loss < epochs[0].loss / 2
    last, first = epochs[-1].measurement, epochs[0].measurement
    assert last is not None
    assert first is not None
    assert last.quality > first.quality


def test_rounded_checkpoint_leaves_an_installed_network_as_it_is(tmp_path: Path) -> None:
    dataset = collection()
    rows = np.random.default_rng(0).random((len(dataset), 1280), dtype=np.float32)
    data = dataset, FeatureInput(np.array([image.id for image in dataset.images]), rows)
    config = replace(
        CONFIG, model=replace(CONFIG.model, backbone=LITE), saved_dtype="int8", epochs=1
    )
    network = dict(build_backbone(LITE).state_dict())
    RetrievalTraining(
        config, tmp_path, TrainingInputs(data, data, backbone_weights=network)
    ).train()
    assert not any("backbone" in key for key in load_file(tmp_path / WEIGHTS))


@pytest.mark.slow
def test_contrastive_loss_raises_the_recall(tmp_path: Path) -> None:
    validations: list[float] = []

    def report(progress: Progress[Measurement]) -> None:
        if progress.measurement is not None:
            validations.append(progress.measurement.quality)

    run(tmp_path / "a", replace(CONFIG, loss="contrastive"), report=report)
    run(tmp_path / "b", replace(CONFIG, loss="contrastive", inverse_temperature=3.0))
    assert validations[-1] > validations[0]
    assert weights(tmp_path / "a") != weights(tmp_path / "b")


@pytest.mark.slow
def test_entailment_loss_orders_captions_whose_meaning_is_known(tmp_path: Path) -> None:
    dataset = scenes(12)
    data = (dataset, features(dataset))
    config = replace(
        CONFIG,
        model=replace(CONFIG.model, length="learned", word_range=1.0),
        captions_per_image=5,
        epochs=20,
        patience=20,
    )
    texts = [caption.text for caption in dataset.captions]
    rows = np.arange(len(texts))
    true = known_ground_truth(dataset).entails(rows, rows)
    assert true is not None
    others = ~np.eye(len(texts), dtype=np.bool_)
    precision = {}
    for weight in (0.0, 2.0):
        trained = run(tmp_path / f"{weight}", replace(config, entailment=weight), data)
        points = torch.from_numpy(trained.model.encode_captions(texts))
        found = pairwise_violation(points, points).numpy()
        precision[weight] = average_precisions(found[others][None], true[others][None]).item()
    assert precision[2.0] > precision[0.0] + 0.1


@pytest.mark.slow
def test_entailment_loss_without_known_meanings_changes_nothing(tmp_path: Path) -> None:
    run(tmp_path / "a")
    run(tmp_path / "b", replace(CONFIG, entailment=2.0))
    assert weights(tmp_path / "a") == weights(tmp_path / "b")


@pytest.mark.parametrize(("truth", "expected"), [("meaning", 180), ("annotation", 60)])
def test_quality_is_precision_where_all_truth_is_known_and_recall_elsewhere(
    truth: str, expected: float
) -> None:
    metrics = RankingMetrics(10, 10, 10, 1, 1, 90, queries=4, tied=0)
    assert Evaluation(4, 4, truth, metrics, metrics).quality == expected


def test_checkpoint_orders_coordinates_by_weight_and_the_state_does_not(
    tmp_path: Path,
) -> None:
    data = (collection(), features(collection()))
    model = order_embedding_of(run(tmp_path, replace(CONFIG, epochs=1)))
    captions = model.encode_captions([caption.text for caption in data[0].captions])
    weight = np.square(captions).mean(0)
    assert (np.diff(weight) <= 1e-6).all()
    assert weight[0] > weight[-1]
    training = load_file(tmp_path / FILE_NAME)
    bias = model.images.projection.bias.detach()
    in_training = training["model.images.projection.bias"]
    assert bias.sort().values.equal(in_training.sort().values)
    assert not bias.equal(in_training)


@pytest.mark.parametrize(
    ("dtype", "precision", "read", "hubness"),
    [
        ("float32", "bfloat16", features, 0),
        ("int8", "float32", features, 20),
        ("float16", "float32", pixels, 20),
    ],
)
def test_metrics_of_a_checkpoint_were_measured_on_its_stored_weights(
    dtype: WeightDtype,
    precision: Literal["float32", "bfloat16"],
    read: Callable[..., Any],
    hubness: int,
    tmp_path: Path,
) -> None:
    data: tuple[Dataset, ImageInput] = (collection(30), features(collection(30)))
    if read is pixels:
        data = pixels(collection(30), tmp_path / "pictures")
    config = replace(CONFIG, model=replace(CONFIG.model, hubness=hubness))
    kept = run(
        tmp_path, replace(config, saved_dtype=dtype, precision=precision), data, kind=FewReferences
    )
    points = dataset_points(order_embedding_of(kept), *data)
    measured = evaluate(data[0], *points, "order").to_json()
    said = kept.metrics["history"][-1]["validation"]
    for direction in ("caption_retrieval", "image_retrieval"):
        assert said[direction] == pytest.approx(measured[direction])
    meant = calibrations(data[0], *points, "order").image
    assert isinstance(meant, Calibration)
    assert isinstance(kept.calibration.image, Calibration)
    # To rounding: the coordinates were renumbered when they were saved.
    np.testing.assert_allclose(kept.calibration.image.violations, meant.violations, rtol=1e-5)
    stored = load_file(tmp_path / WEIGHTS)["images.projection.weight"].dtype
    assert stored == getattr(torch, dtype)
    assert kept.metrics["dataset"] == {"name": "colours", "images": 30, "captions": 60}


def test_hubness_correction_uses_training_points_and_changes_lengths_only(tmp_path: Path) -> None:
    data = (collection(30), features(collection(30)))
    assert (
        order_embedding_of(run(tmp_path / "few", with_hubness(20), data)).hubness is None
    )  # too few
    plain, evened = (
        run(tmp_path / "plain", data=data),
        run(tmp_path / "evened", with_hubness(99), data, kind=FewReferences),
    )
    hubness = order_embedding_of(evened).hubness
    assert hubness is not None
    assert len(hubness.images) == len(hubness.captions) == 20  # and ten to tell what is usual
    assert order_embedding_of(evened).config.hubness == 20
    every = dataset_points(order_embedding_of(plain), *data)
    points = dataset_points(order_embedding_of(evened), *data)
    for found, unit, members in zip(points, every, (hubness.images, hubness.captions), strict=True):
        lengths = np.linalg.norm(found, axis=1)
        assert np.ptp(lengths) > 0.001
        # In all else it is the model that learned without one, of whose points each is another.
        np.testing.assert_allclose(found / lengths[:, None], unit, atol=1e-5)
        nearest = np.abs(members.numpy()[:, None] - unit).max(2)
        assert nearest.min(1).max() < 1e-5
    seen = np.abs(hubness.images.numpy()[:, None] - every[0]).max(2).argmin(1)
    assert len(set(seen.tolist())) == 20


def test_frozen_backbone_keeps_its_weights(tmp_path: Path) -> None:
    start = build_backbone(TINY).state_dict()
    dataset = collection()
    data = (dataset, features(dataset))
    trained = RetrievalTraining(
        CONFIG, tmp_path, TrainingInputs(data, data, backbone_weights=start)
    ).train()
    for key, value in order_embedding_of(trained).images.backbone.state_dict().items():
        assert value.equal(start[key]), key


def test_start_is_accepted_only_with_the_same_shape_and_words(
    tmp_path: Path,
) -> None:
    first = run(tmp_path / "first")
    data = (collection(), features(collection()))
    still = replace(CONFIG, epochs=1, learning_rate=1e-9)
    then = RetrievalTraining(
        still, tmp_path / "then", TrainingInputs(data, data, start=first)
    ).train()
    texts = [caption.text for caption in data[0].captions]
    np.testing.assert_allclose(
        then.model.encode_captions(texts), first.model.encode_captions(texts), atol=1e-5
    )
    with pytest.raises(TrainingError, match="another start"):
        run(tmp_path / "then", still)
    other = replace(still, model=replace(CONFIG.model, dimension=8))
    with pytest.raises(TrainingError, match=r"another shape \(dimension: \d+ there, 8 now\)"):
        RetrievalTraining(other, tmp_path / "other", TrainingInputs(data, data, start=first))
    rare = replace(still, min_word_count=11)
    with pytest.raises(TrainingError, match="other words"):
        RetrievalTraining(rare, tmp_path / "other", TrainingInputs(data, data, start=first))


def test_training_on_features_keeps_their_network_where_the_start_has_it_rounded(
    tmp_path: Path,
) -> None:
    start = dict(build_backbone(TINY).state_dict())
    data = (collection(), features(collection()))
    small = replace(CONFIG, epochs=1, saved_dtype="int8")
    first = RetrievalTraining(
        small, tmp_path / "first", TrainingInputs(data, data, backbone_weights=start)
    ).train()
    exact = replace(small, saved_dtype="float32")
    then = RetrievalTraining(
        exact, tmp_path / "then", TrainingInputs(data, data, backbone_weights=start, start=first)
    ).train()
    networks = (order_embedding_of(one).images.backbone for one in (first, then))
    assert len({network.fingerprint() for network in networks}) == 1
    for key, value in order_embedding_of(then).images.backbone.state_dict().items():
        assert value.equal(start[key]), key


def test_backbone_that_learns_starts_from_the_weights_of_the_start(tmp_path: Path) -> None:
    data = pixels(collection(), tmp_path / "pictures")
    still = replace(CONFIG, epochs=1, learning_rate=1e-12)
    first = RetrievalTraining(still, tmp_path / "first", TrainingInputs(data, data)).train()
    other = dict(build_backbone(TINY).state_dict())
    then = RetrievalTraining(
        still, tmp_path / "then", TrainingInputs(data, data, backbone_weights=other, start=first)
    ).train()
    weights = dict(order_embedding_of(first).images.backbone.named_parameters())
    for name, weight in order_embedding_of(then).images.backbone.named_parameters():
        torch.testing.assert_close(weight, weights[name], atol=1e-6, rtol=0)


def test_training_on_one_image_is_refused(tmp_path: Path) -> None:
    data = (collection(1), features(collection(1)))
    with pytest.raises(DatasetError, match="at least two captioned images"):
        run(tmp_path, data=data)


def test_features_that_are_not_numbers_stop_the_training_at_their_step(tmp_path: Path) -> None:
    dataset = collection()
    spoiled = features(dataset)
    spoiled.features[3] = np.nan
    batches = a_training(CONFIG, tmp_path).plan.of_epoch(0, 0)
    (step,) = [step for step, rows, _, _ in batches if 3 in rows]
    with pytest.raises(TrainingError, match=f"the loss is nan in epoch 1, step {step + 1}:"):
        run(tmp_path, data=(dataset, spoiled))


def test_validation_features_that_are_not_numbers_stop_the_training(tmp_path: Path) -> None:
    dataset = collection()
    spoiled = features(dataset)
    spoiled.features[3] = np.inf
    data = (dataset, features(dataset))
    training = RetrievalTraining(CONFIG, tmp_path, TrainingInputs(data, (dataset, spoiled)))
    with pytest.raises(TrainingError, match=r"after epoch 1 .* look for features"):
        training.train()
    assert list(tmp_path.iterdir()) == [], "another rate can be tried in the same folder"


def test_captions_without_words_are_refused(tmp_path: Path) -> None:
    rare = "the captions of 'colours' have no word that comes 1,000 times: .* or lower min_word"
    with pytest.raises(DatasetError, match=rare):
        run(tmp_path, replace(CONFIG, min_word_count=1000))
    silent = tuple(
        replace(image, captions=tuple(replace(one, text="!") for one in image.captions))
        for image in collection().images
    )
    data = (Dataset("silent", silent), features(collection()))
    with pytest.raises(DatasetError, match=r"'silent' have no word: check the caption file$"):
        run(tmp_path, data=data)


def test_last_step_that_makes_weights_infinite_stops_the_training(tmp_path: Path) -> None:
    rate = replace(CONFIG, batch_size=10, learning_rate=1e18, weight_decay=1e18)
    with pytest.raises(TrainingError, match=r"points are not numbers: .* lower --learning-rate"):
        run(tmp_path, rate)


def test_weight_that_is_not_a_number_is_found_though_rounding_hides_it(
    tmp_path: Path,
) -> None:
    training = a_training(replace(CONFIG, saved_dtype="int8"), tmp_path)
    with torch.no_grad():
        training.model.images.projection.weight[0, 0] = torch.nan
    with pytest.raises(TrainingError, match=r"points are not numbers: .* lower --learning-rate"):
        training.measure(0.0)
