from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from hasse.lab.checkpoints import learned_model
from hasse.lab.checkpoints.learned_model import order_embedding_of
from hasse.lab.encoders.backbone import Backbone
from hasse.lab.encoders.registry import build_backbone
from hasse.lab.training.distributed import World
from hasse.lab.training.inputs import ImageInput, TrainingInputs, dataset_points
from hasse.lab.training.lesson import Measurement
from hasse.lab.training.run import Progress, TrainingError, TrainingStopped
from hasse.lab.training.state import FILE_NAME, difference
from hasse.lab.training.trainer import RetrievalTraining
from hasse.models.checkpoints.model_folder import SUMS, CheckpointError
from hasse.models.datasets import Dataset
from hasse.models.encoders.model_config import CaptionPooling
from tests.lab.training.colours import (
    CONFIG,
    FewReferences,
    collection,
    features,
    pixels,
    run,
    scenes,
    stop_after,
    weights,
    with_hubness,
)
from tests.tiny import TINY, TINY_DROPPING


def test_same_seed_gives_the_same_weights_and_another_seed_others(tmp_path: Path) -> None:
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        run(tmp_path / name, replace(CONFIG, seed=seed))
    assert weights(tmp_path / "a") == weights(tmp_path / "b")
    assert weights(tmp_path / "a") != weights(tmp_path / "c")


@pytest.mark.parametrize("kind", ["features", "pixels", "channels left out", "scenes"])
def test_training_stopped_in_an_epoch_ends_with_the_same_weights(tmp_path: Path, kind: str) -> None:
    data: tuple[Dataset, ImageInput] = (collection(), features(collection()))
    model = replace(CONFIG.model, length="learned")
    if kind in {"pixels", "channels left out"}:
        data = pixels(collection(), tmp_path / "pictures")
    elif kind == "scenes":
        data = (scenes(), features(scenes()))
    if kind == "channels left out":  # in training, some of the time
        model = replace(model, backbone=TINY_DROPPING)
    config = replace(
        CONFIG,
        model=model,
        entailment=2.0,
        epochs=2,
        captions_per_image=2,
        warm_up=3,
        schedule="cosine",
        unknown_rate=0.1,
        precision="bfloat16",
    )
    run(tmp_path / "straight", config, data)
    with pytest.raises(TrainingStopped, match=r"in epoch \d of 2"):
        run(tmp_path / "stopped", config, data, stop=stop_after(3))
    run(tmp_path / "stopped", config, data)
    assert weights(tmp_path / "straight") == weights(tmp_path / "stopped")


@pytest.mark.slow
def test_training_with_hubness_correction_stopped_ends_with_the_same_weights(
    tmp_path: Path,
) -> None:
    data = (collection(30), features(collection(30)))
    run(tmp_path / "whole", with_hubness(15), data, kind=FewReferences)
    with pytest.raises(TrainingStopped):
        run(tmp_path / "stopped", with_hubness(15), data, stop=stop_after(12), kind=FewReferences)
    run(tmp_path / "stopped", with_hubness(15), data, kind=FewReferences)
    assert weights(tmp_path / "stopped") == weights(tmp_path / "whole")
    first = learned_model.load(tmp_path / "whole", to_learn=True)
    still = replace(with_hubness(15), epochs=1, learning_rate=1e-9)
    then = FewReferences(still, tmp_path / "then", TrainingInputs(data, data, start=first)).train()
    for found, before in zip(
        *(dataset_points(order_embedding_of(m), *data) for m in (then, first)), strict=True
    ):
        np.testing.assert_allclose(found, before, atol=1e-5)


def test_checkpoint_whose_saving_was_cut_off_is_saved_again_though_it_came_out_worse(
    tmp_path: Path,
) -> None:
    class Killed(Exception):
        pass

    qualities = iter([0.2, 0.3, 0.1])

    class CutOff(RetrievalTraining):
        def quality(self, measurement: Measurement) -> float:
            return next(qualities)

        def save_model(self, measurement: Measurement) -> None:
            sums = self.folder / SUMS
            before = sums.read_bytes() if sums.is_file() else None
            super().save_model(measurement)
            if before is not None and self.notes["best"] == 0.3:
                sums.write_bytes(before)  # they are the last thing that is written
                raise Killed

    config, data = replace(CONFIG, epochs=2), (collection(), features(collection()))
    with pytest.raises(Killed):
        CutOff(config, tmp_path, TrainingInputs(data, data)).train()
    with pytest.raises(CheckpointError, match="let it go on"):
        learned_model.load(tmp_path)
    # Where sums come out otherwise each time, as on a GPU, it may be no better than the first.
    found = CutOff(config, tmp_path, TrainingInputs(data, data)).train()
    assert len(found.metrics["history"]) == 2


def test_first_checkpoint_is_written_after_the_state(tmp_path: Path) -> None:
    """A model without a state is taken for one that no training could go on with."""

    class Killed(RetrievalTraining):
        def save_model(self, measurement: Measurement) -> None:
            raise KeyboardInterrupt

    run(tmp_path / "straight")
    data = (collection(), features(collection()))
    with pytest.raises(KeyboardInterrupt):
        Killed(CONFIG, tmp_path / "killed", TrainingInputs(data, data)).train()
    assert [path.name for path in (tmp_path / "killed").iterdir()] == [FILE_NAME]
    steps: list[int] = []
    found = run(tmp_path / "killed", report=lambda now: steps.append(now.epoch))
    assert weights(tmp_path / "straight") == weights(tmp_path / "killed")
    assert steps.count(0) == 1, "the first epoch is only measured again"
    assert [row["epoch"] for row in found.metrics["history"]] == list(
        range(1, len(found.metrics["history"]) + 1)
    )


@pytest.mark.skipif(not torch.cuda.is_available(), reason="compares a GPU with a CPU")
@pytest.mark.parametrize("pooling", ["last", "max"])
def test_gpu_learns_what_a_cpu_learns_also_when_stopped(
    tmp_path: Path, pooling: CaptionPooling
) -> None:
    data = (scenes(), features(scenes()))
    config = replace(
        CONFIG,
        model=replace(CONFIG.model, caption_pooling=pooling),
        captions_per_image=2,
        entailment=1.0,
        epochs=6,
        learning_rate=1e-3,
        schedule="cosine",
    )

    def losses(device: str, steps: int) -> list[float]:
        found: list[float] = []

        def go_on(stop: Callable[[], bool] | None) -> None:
            RetrievalTraining(
                config, tmp_path / device, TrainingInputs(data, data), world=World(device)
            ).train(lambda progress: found.append(progress.loss), stop)

        with pytest.raises(TrainingStopped):
            go_on(stop_after(steps))
        go_on(None)
        return found

    # What is rounded may change a sign, or which state is the largest, and with it a slope.
    np.testing.assert_allclose(losses("cuda", 10), losses("cpu", 7), rtol=0.05)


def test_finished_training_does_nothing(tmp_path: Path) -> None:
    run(tmp_path)
    before = weights(tmp_path)
    reports: list[Progress[Measurement]] = []
    run(tmp_path, report=reports.append)
    assert reports == []
    assert weights(tmp_path) == before


def test_difference_names_the_first_of_several() -> None:
    names = [f"option_{at}" for at in range(20)]
    found, wanted = dict.fromkeys(names, 1), dict.fromkeys(names, 2)
    assert difference(found, wanted) == "option_0: 1 there, 2 now"
    assert difference({"old": 1}, {"old": 1, "new": 2}) == "new: None there, 2 now"
    assert difference({"old": 1, "gone": 2}, {"old": 1}) == "gone: 2 there, None now"


def test_folder_of_a_training_with_another_option_is_refused_by_its_name(tmp_path: Path) -> None:
    run(tmp_path)
    with pytest.raises(TrainingError, match=r"margin: 0\.05 there, 0\.2 now"):
        run(tmp_path, replace(CONFIG, margin=0.2))


def test_resuming_with_other_captions_or_another_network_is_refused(tmp_path: Path) -> None:
    def go_on(dataset: Dataset, network: Backbone, stop: Callable[[], bool] | None = None) -> None:
        data = (dataset, features(dataset))
        weights = dict(network.state_dict())
        RetrievalTraining(
            CONFIG, tmp_path, TrainingInputs(data, data, backbone_weights=weights)
        ).train(stop=stop)

    dataset, network = collection(), build_backbone(TINY)
    with pytest.raises(TrainingStopped):
        go_on(dataset, network, stop_after(1))
    # As many, so that every weight has the shape it had, and every word another one's vector.
    first, *rest = dataset.images
    texts = tuple(replace(one, text=one.text.replace("a", "the")) for one in first.captions)
    reworded = replace(dataset, images=(replace(first, captions=texts), *rest))
    with pytest.raises(TrainingError, match="another text"):
        go_on(reworded, network)
    with pytest.raises(TrainingError, match="another network"):
        go_on(dataset, build_backbone(TINY))
    go_on(dataset, network)


def test_resuming_with_another_validation_set_is_refused(tmp_path: Path) -> None:
    def go_on(held_out: Dataset, stop: Callable[[], bool] | None = None) -> None:
        learned = (collection(), features(collection()))
        measured = (held_out, features(held_out))
        RetrievalTraining(CONFIG, tmp_path, TrainingInputs(learned, measured)).train(stop=stop)

    held_out = collection(4)
    with pytest.raises(TrainingStopped):
        go_on(held_out, stop_after(1))
    first, *rest = held_out.images
    one_caption = replace(held_out, images=(replace(first, captions=first.captions[:1]), *rest))
    for other in (collection(5), one_caption):
        with pytest.raises(TrainingError, match=r"another validation \(.* there, .* now\)"):
            go_on(other)
    go_on(held_out)


def test_resuming_with_more_or_fewer_readable_images_is_refused(
    tmp_path: Path,
) -> None:
    whole = collection()

    def go_on(learned: int, measured: int, stop: Callable[[], bool] | None = None) -> None:
        """Train where one image of either collection is not there, the one of this number."""
        there = [
            features(replace(whole, images=whole.images[:lacking] + whole.images[lacking + 1 :]))
            for lacking in (learned, measured)
        ]
        data = [(whole, part) for part in there]
        RetrievalTraining(CONFIG, tmp_path, TrainingInputs(data[0], data[1])).train(stop=stop)

    with pytest.raises(TrainingStopped):
        go_on(0, 1, stop_after(1))
    for learned, measured, said in (
        (10, 1, "images: 9 there, 10 now"),
        (2, 1, "fingerprint"),
        (0, 2, "fingerprint"),
    ):
        with pytest.raises(TrainingError, match=rf"another selection \({said}"):
            go_on(learned, measured)
    go_on(0, 1)


# What earlier versions wrote of options that only models of studies have.
OF_STUDIES = {"text_encoder": "gru", "states": 0, "word_vectors": "learned", "image_map": "linear"}


def test_training_that_0_2_0_began_goes_on(tmp_path: Path) -> None:
    run(tmp_path / "straight")
    with pytest.raises(TrainingStopped):
        run(tmp_path / "begun", stop=stop_after(5))
    path = tmp_path / "begun" / FILE_NAME
    with safe_open(path, "pt") as file:
        notes = json.loads(file.metadata()["notes"])
    tensors = load_file(path)
    del notes["lessons"], notes["config"]["least_steps"]
    notes["config"] |= {"distillation": 4.0, "other_texts": 768, "derived": 0.5, "classes": 0.3}
    notes["config"] |= {"class_pictures": 128, "decoding": 0.0}
    notes["config"]["model"] |= OF_STUDIES
    notes["config"]["dropout"] = 0.0
    notes |= {"texts": None, "word_vectors": None}
    save_file(tensors, path, {"notes": json.dumps(notes)})
    run(tmp_path / "begun")
    assert weights(tmp_path / "straight") == weights(tmp_path / "begun")
