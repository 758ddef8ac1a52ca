from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from models.checkpoints import checkpoint, model_folder
from models.checkpoints.model_folder import SUMS, WEIGHTS, CheckpointError
from models.checkpoints.weight_quantization import StoredDtype
from models.datasets import Caption, Dataset, DatasetError, Image
from models.datasets.scenes import scene_and_captions
from models.encoders.backbone import Backbone, build_backbone
from models.encoders.text_encoder import Members, Reading
from models.evaluation.calibration import calibrations
from models.evaluation.ground_truth import known_truth
from models.evaluation.ranking import RankingMetrics, average_precisions
from models.evaluation.retrieval import Evaluation, evaluate
from models.files import write_whole
from models.images.pixel_store import cache_pixels
from models.images.preprocessing import Preprocessing
from models.model import ModelConfig
from models.order import pairwise_violation
from models.score import SCORES, Score, penalties
from models.training import trainer
from models.training.config import TrainingConfig
from models.training.distributed import ALONE, World
from models.training.inputs import FeatureInput, ImageInput, PixelInput, dataset_points
from models.training.loss import contrastive_loss, hardest_loss, ranking_loss
from models.training.schedule import Schedule
from models.training.state import FILE_NAME, StateError, difference, save_state
from models.training.step import Learner
from models.training.trainer import Progress, TrainingError, TrainingStopped, train
from models.vocabulary import END, PADDING, UNKNOWN

COLOURS = {"red": (220, 40, 40), "green": (40, 180, 60), "blue": (40, 60, 220)}
SHAPES = ("dark", "bright")
CONFIG = TrainingConfig(
    model=ModelConfig(backbone="shufflenet_v2_x0_5", dimension=12, word_dimension=8),
    preprocessing=Preprocessing(resize=36, crop=32),
    epochs=4,
    batch_size=4,
    learning_rate=0.01,
)


def with_crowd(size: int) -> TrainingConfig:
    return replace(CONFIG, model=replace(CONFIG.model, crowd=size))


def collection(count: int = 10) -> Dataset:
    images = []
    for row in range(count):
        colour, shape = list(COLOURS)[row % 3], SHAPES[row % 2]
        texts = (f"a {colour} picture", f"a {shape} {colour} picture number {row}")
        captions = tuple(Caption(10 * row + at, row, text) for at, text in enumerate(texts))
        path = Path(f"/nowhere/{row}.png")
        images.append(Image(row, path.name, path, "train", 40, 40, captions))
    return Dataset("colours", tuple(images))


def features(dataset: Dataset) -> FeatureInput:
    rng = np.random.default_rng(0)
    ids = np.array([image.id for image in dataset.images])
    return FeatureInput(ids, rng.random((len(ids), 1024), dtype=np.float32))


def scenes(count: int = 10) -> Dataset:
    images = []
    for row in range(count):
        scene, statements = scene_and_captions(0, "train", row)
        captions = tuple(
            Caption(5 * row + at, row, s.text, s.to_json()) for at, s in enumerate(statements)
        )
        path = Path(f"/nowhere/{row}.png")
        meaning = scene.to_json()
        images.append(Image(row, path.name, path, "train", 40, 40, captions, meaning))
    return Dataset("scenes", tuple(images))


def pixels(dataset: Dataset, folder: Path) -> tuple[Dataset, PixelInput]:
    from PIL import Image as Pillow

    folder.mkdir()
    images = []
    for image in dataset.images:
        path = folder / image.file_name
        Pillow.new("RGB", (40, 40), COLOURS[list(COLOURS)[image.id % 3]]).save(path)
        images.append(replace(image, path=path))
    dataset = replace(dataset, images=tuple(images))
    cache = cache_pixels(dataset, CONFIG.preprocessing, folder / "pixels", workers=1)
    return dataset, PixelInput(cache)


def weights(folder: Path) -> bytes:
    return (folder / WEIGHTS).read_bytes()


def run(
    folder: Path,
    config: TrainingConfig = CONFIG,
    data: tuple[Dataset, ImageInput] | None = None,
    stop: Callable[[], bool] | None = None,
    report: Callable[[Progress], None] | None = None,
) -> checkpoint.Checkpoint:
    dataset = collection()
    data = data or (dataset, features(dataset))
    return train(config, "colours", folder, data, data, stop=stop, report=report)


def a_run(
    config: TrainingConfig,
    folder: Path,
    data: tuple[Dataset, ImageInput] | None = None,
    world: World = ALONE,
) -> trainer._Run:
    """Return a training that has not begun, on the features of the collection."""
    data = data or (collection(), features(collection()))
    return trainer._Run(
        config, "colours", folder, data, data, backbone_weights=None, start=None, world=world
    )


def stop_after(steps: int) -> Callable[[], bool]:
    asked = iter(range(steps))
    return lambda: next(asked, None) is None


def test_the_loss_falls_and_the_model_learns(tmp_path: Path) -> None:
    epochs: list[Progress] = []

    def report(progress: Progress) -> None:
        if progress.validation is not None:
            epochs.append(progress)

    run(tmp_path, replace(CONFIG, epochs=30, patience=30), report=report)
    assert epochs[-1].loss < epochs[0].loss / 2
    last, first = epochs[-1].validation, epochs[0].validation
    assert last is not None
    assert first is not None
    assert last.rsum > first.rsum


def test_the_contrastive_loss_is_learned_from_too(tmp_path: Path) -> None:
    validations: list[float] = []

    def report(progress: Progress) -> None:
        if progress.validation is not None:
            validations.append(progress.validation.rsum)

    run(tmp_path / "a", replace(CONFIG, loss="contrastive"), report=report)
    run(tmp_path / "b", replace(CONFIG, loss="contrastive", sharpness=3.0))
    assert validations[-1] > validations[0]
    assert weights(tmp_path / "a") != weights(tmp_path / "b")


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("kind", ["ranking", "hardest", "contrastive"])
def test_the_loss_that_is_told_is_the_one_asked_for_and_a_mean_over_captions_and_members(
    tmp_path: Path, kind: Literal["ranking", "hardest", "contrastive"], score: Score
) -> None:
    config = replace(
        CONFIG,
        model=replace(CONFIG.model, score=score, members=2),
        batch_size=8,
        captions_per_image=2,
        loss=kind,
        margin=0.3,
        sharpness=7.0,
        entailment=0.5,
    )
    training = a_run(config, tmp_path, (scenes(8), features(scenes(8))))
    (batch,) = training._prepared(0, 0)
    images, tokens, lengths, owners, true, follows = batch.inputs
    model = training.model

    def loss(of: Tensor, captions: Tensor, owners: Tensor, true: Tensor) -> Tensor:
        penalty = penalties(score, of, captions)
        if kind == "ranking":
            return ranking_loss(penalty, owners, true, 0.3)
        if kind == "hardest":
            return hardest_loss(penalty, owners, true, 0.3)
        return contrastive_loss(penalty, owners, true, 7.0)

    total = 0.0
    with torch.no_grad():
        every = model.feature_points(images), model.caption_points(tokens, lengths)
        for seen, said in zip(*map(model.parts, every), strict=True):
            total += float(loss(seen, said, owners, true))
            total += 0.5 * float(loss(said, said, torch.arange(len(said)), follows))
    told: list[Progress] = []
    training.epoch_steps(told.append, None)
    assert told[0].loss == pytest.approx(total / (16 * 2), rel=1e-4)


@pytest.mark.parametrize("schedule", ["constant", "cosine"])
def test_the_learning_rate_rises_over_the_first_steps_and_falls_over_all_epochs(
    tmp_path: Path, schedule: Schedule, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates: list[float] = []
    step = Learner.step

    def watched(learner: Learner, inputs: tuple[Tensor, ...], rate: float) -> Tensor:
        loss = step(learner, inputs, rate)
        rates.append(learner.optimizer.param_groups[0]["lr"])
        return loss

    monkeypatch.setattr(Learner, "step", watched)
    run(tmp_path, replace(CONFIG, epochs=2, schedule=schedule, warm_up=4))
    falls = [(1 + math.cos(math.pi * at / 6)) / 2 if schedule == "cosine" else 1 for at in range(6)]
    rises = [0.25, 0.5, 0.75, 1, 1, 1]
    expected = [0.01 * fall * rise for fall, rise in zip(falls, rises, strict=True)]
    assert rates == pytest.approx(expected)


def test_each_gradient_is_shortened_by_itself_and_none_is_lengthened(tmp_path: Path) -> None:
    def gradients(longest: float) -> list[Tensor]:
        training = a_run(replace(CONFIG, clip_norm=longest), tmp_path)
        training._step(0, next(training._prepared(0, 0)))
        return [weight.grad for weight in training.model.parameters() if weight.grad is not None]

    free = gradients(1e9)
    lengths = [float(gradient.norm()) for gradient in free]
    middle = float(np.median(lengths))
    assert min(lengths) < middle < max(lengths) < 1e3
    for short, whole, length in zip(gradients(middle), free, lengths, strict=True):
        torch.testing.assert_close(short, whole * min(1.0, middle / length))


def test_weights_decay_apart_from_their_gradients(tmp_path: Path) -> None:
    def after_a_step(decay: float) -> tuple[Tensor, Tensor]:
        training = a_run(replace(CONFIG, weight_decay=decay), tmp_path)
        weight = training.model.images.projection.weight
        before = weight.detach().clone()
        training._step(0, next(training._prepared(0, 0)))
        return before, weight.detach()

    (before, plain), (_, decayed) = after_a_step(0.0), after_a_step(10.0)
    torch.testing.assert_close(plain - decayed, 0.01 * 10 * before, rtol=1e-3, atol=1e-6)


def test_a_batch_is_read_as_the_configuration_says(tmp_path: Path) -> None:
    config = replace(
        CONFIG,
        model=replace(CONFIG.model, max_words=3),
        captions_per_image=2,
        unknown_rate=1.0,
        min_word_count=7,
    )
    training = a_run(config, tmp_path)
    batch = next(training._prepared(0, 0))
    _, tokens, lengths, *_ = batch.inputs
    assert batch.captions == len(tokens) == 8
    assert lengths.max() == 4, "and the end"
    assert set(tokens.flatten().tolist()) <= {UNKNOWN, END, PADDING}
    assert "green" not in training.model.vocabulary.words
    assert "picture" in training.model.vocabulary.words


def test_a_seed_decides_where_a_training_begins_and_what_it_reads_when(tmp_path: Path) -> None:
    first, second = (a_run(replace(CONFIG, seed=seed), tmp_path) for seed in (0, 1))
    weights = [one.model.images.projection.weight for one in (first, second)]
    assert not weights[0].equal(weights[1])
    orders = [
        [rows.tolist() for _, rows, *_ in one.batches.of_epoch(0, 0)] for one in (first, second)
    ]
    assert orders[0] != orders[1]


def test_a_training_multiplies_in_the_precision_of_its_configuration(tmp_path: Path) -> None:
    precisions: tuple[Literal["float32", "bfloat16"], ...] = ("float32", "bfloat16")
    for precision in precisions:
        run(tmp_path / precision, replace(CONFIG, epochs=1, precision=precision))
    assert weights(tmp_path / "float32") != weights(tmp_path / "bfloat16")


def test_parts_of_a_batch_are_read_by_different_processes_and_varied_differently(
    tmp_path: Path,
) -> None:
    ids = np.array([image.id for image in collection().images])
    views = np.empty((10, 50, 1024), dtype=np.float32)
    views[:] = np.arange(10)[:, None, None] * 50 + np.arange(50)[:, None]  # which one it is
    data = (collection(), FeatureInput(ids, views[:, 0], views))
    config = replace(CONFIG, batch_size=10)
    read = [
        next(a_run(config, tmp_path, data, World(rank=rank, size=2))._prepared(0, 0)).inputs
        for rank in range(2)
    ]
    seen = [inputs[0][:, 0].int() for inputs in read]
    assert sorted(torch.cat(seen).div(50, rounding_mode="floor").tolist()) == list(range(10))
    assert (seen[0] % 50).tolist() != (seen[1] % 50).tolist()


def test_members_learn_as_each_would_alone(tmp_path: Path) -> None:
    two = replace(CONFIG, model=replace(CONFIG.model, members=2), epochs=1)
    alone = replace(CONFIG, model=replace(CONFIG.model, dimension=6), epochs=1)
    together, first = a_run(two, tmp_path), a_run(alone, tmp_path)
    assert isinstance(together.model.captions, Members)
    first.model.captions.load_state_dict(together.model.captions.encoders[0].state_dict())
    for theirs, mine in zip(
        together.model.images.projection.parameters(),
        first.model.images.projection.parameters(),
        strict=True,
    ):
        mine.data.copy_(theirs.data[:6])
    for one in (together, first):
        one.model.train()
        one._step(0, next(one._prepared(0, 0)))
    # Adam's first step is of the size of the learning rate, 0.01, wherever there is a gradient.
    torch.testing.assert_close(
        together.model.images.projection.weight[:6],
        first.model.images.projection.weight,
        atol=1e-3,
        rtol=0,
    )
    for theirs, mine in zip(
        together.model.captions.encoders[0].parameters(),
        first.model.captions.parameters(),
        strict=True,
    ):
        torch.testing.assert_close(theirs, mine, atol=1e-3, rtol=0)


def test_one_seed_gives_one_model_and_another_seed_another(tmp_path: Path) -> None:
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        run(tmp_path / name, replace(CONFIG, seed=seed))
    assert weights(tmp_path / "a") == weights(tmp_path / "b")
    assert weights(tmp_path / "a") != weights(tmp_path / "c")


@pytest.mark.parametrize("kind", ["features", "pixels", "blocks left out", "scenes"])
@pytest.mark.parametrize("steps", [1, 3, 5])
def test_a_training_stopped_anywhere_ends_with_the_same_weights(
    tmp_path: Path, kind: str, steps: int
) -> None:
    data: tuple[Dataset, ImageInput] = (collection(), features(collection()))
    model = replace(CONFIG.model, length="learned")
    if kind in {"pixels", "blocks left out"}:
        data = pixels(collection(), tmp_path / "pictures")
    elif kind == "scenes":
        data = (scenes(), features(scenes()))
    if kind == "blocks left out":  # in training, some of the time
        model = replace(model, backbone="efficientnet_b0")
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
    with pytest.raises(TrainingStopped, match="goes on from there"):
        run(tmp_path / "stopped", config, data, stop=stop_after(steps))
    run(tmp_path / "stopped", config, data)
    assert weights(tmp_path / "straight") == weights(tmp_path / "stopped")


def test_a_model_whose_saving_was_cut_off_is_saved_anew_though_it_came_out_worse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(Exception):
        pass

    def cut_off(path: Path, content: bytes) -> None:
        if path.name == SUMS and next(saves) == 2:
            raise Killed
        write_whole(path, content)

    qualities, saves = iter([0.2, 0.3, 0.1]), itertools.count(1)
    monkeypatch.setattr(trainer, "_quality", lambda _: next(qualities))
    monkeypatch.setattr(model_folder, "write_whole", cut_off)
    config = replace(CONFIG, epochs=2)
    with pytest.raises(Killed):
        run(tmp_path, config)
    with pytest.raises(CheckpointError, match="let it go on"):
        checkpoint.load(tmp_path)
    # Where sums come out otherwise each time, as on a GPU, it may be no better than the first.
    assert len(run(tmp_path, config).metrics["history"]) == 2


@pytest.mark.skipif(not torch.cuda.is_available(), reason="compares a GPU with a CPU")
@pytest.mark.parametrize("reading", ["last", "join"])
def test_a_gpu_learns_what_a_cpu_learns_also_when_it_is_stopped(
    tmp_path: Path, reading: Reading
) -> None:
    data = (scenes(), features(scenes()))
    config = replace(
        CONFIG,
        model=replace(CONFIG.model, reading=reading),
        captions_per_image=2,
        entailment=1.0,
        epochs=6,
        learning_rate=1e-3,
        schedule="cosine",
    )

    def losses(device: str, steps: int) -> list[float]:
        found: list[float] = []

        def go_on(stop: Callable[[], bool] | None) -> None:
            train(
                config,
                "scenes",
                tmp_path / device,
                data,
                data,
                world=World(device),
                report=lambda progress: found.append(progress.loss),
                stop=stop,
            )

        with pytest.raises(TrainingStopped):
            go_on(stop_after(steps))
        go_on(None)
        return found

    # What is rounded may change a sign, or which state is the largest, and with it a slope.
    np.testing.assert_allclose(losses("cuda", 10), losses("cpu", 7), rtol=0.05)


def test_captions_of_known_meaning_learn_which_follows_from_which(tmp_path: Path) -> None:
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
    true = known_truth(dataset).entails(rows, rows)
    assert true is not None
    others = ~np.eye(len(texts), dtype=np.bool_)
    precision = {}
    for weight in (0.0, 2.0):
        trained = run(tmp_path / f"{weight}", replace(config, entailment=weight), data)
        points = torch.from_numpy(trained.model.encode_captions(texts))
        found = pairwise_violation(points, points).numpy()
        precision[weight] = average_precisions(found[others][None], true[others][None]).item()
    assert precision[2.0] > precision[0.0] + 0.1


def test_where_nobody_knows_what_follows_entailment_changes_nothing(tmp_path: Path) -> None:
    run(tmp_path / "a")
    run(tmp_path / "b", replace(CONFIG, entailment=2.0))
    assert weights(tmp_path / "a") == weights(tmp_path / "b")


def test_a_finished_training_is_not_done_again(tmp_path: Path) -> None:
    run(tmp_path)
    before = weights(tmp_path)
    reports: list[Progress] = []
    run(tmp_path, report=reports.append)
    assert reports == []
    assert weights(tmp_path) == before


def test_of_several_differences_the_first_is_named() -> None:
    names = [f"option_{at}" for at in range(20)]
    found, wanted = dict.fromkeys(names, 1), dict.fromkeys(names, 2)
    assert difference(found, wanted) == "option_0: 1 there, 2 now"
    assert difference({"old": 1}, {"old": 1, "new": 2}) == "new: None there, 2 now"
    assert difference({"old": 1, "gone": 2}, {"old": 1}) == "gone: 2 there, None now"


def test_another_training_in_the_folder_is_refused_naming_the_difference(tmp_path: Path) -> None:
    run(tmp_path)
    with pytest.raises(TrainingError, match=r"margin: 0\.05 there, 0\.2 now"):
        run(tmp_path, replace(CONFIG, margin=0.2))


def test_a_training_does_not_go_on_with_other_words_or_another_network(tmp_path: Path) -> None:
    def go_on(dataset: Dataset, network: Backbone, stop: Callable[[], bool] | None = None) -> None:
        data = (dataset, features(dataset))
        weights = dict(network.state_dict())
        train(CONFIG, "colours", tmp_path, data, data, backbone_weights=weights, stop=stop)

    dataset, network = collection(), build_backbone("shufflenet_v2_x0_5")
    with pytest.raises(TrainingStopped):
        go_on(dataset, network, stop_after(1))
    # As many, so that every weight has the shape it had, and every word another one's vector.
    first, *rest = dataset.images
    texts = tuple(replace(one, text=one.text.replace("a", "the")) for one in first.captions)
    reworded = replace(dataset, images=(replace(first, captions=texts), *rest))
    with pytest.raises(TrainingError, match="another text"):
        go_on(reworded, network)
    with pytest.raises(TrainingError, match="another network"):
        go_on(dataset, build_backbone("shufflenet_v2_x0_5"))
    go_on(dataset, network)


def test_a_training_does_not_choose_its_best_epoch_by_two_measures(tmp_path: Path) -> None:
    def go_on(held_out: Dataset, stop: Callable[[], bool] | None = None) -> None:
        learned = (collection(), features(collection()))
        train(CONFIG, "colours", tmp_path, learned, (held_out, features(held_out)), stop=stop)

    held_out = collection(4)
    with pytest.raises(TrainingStopped):
        go_on(held_out, stop_after(1))
    first, *rest = held_out.images
    one_caption = replace(held_out, images=(replace(first, captions=first.captions[:1]), *rest))
    for other in (collection(5), one_caption):
        with pytest.raises(TrainingError, match=r"another validation \(.* there, .* now\)"):
            go_on(other)
    go_on(held_out)


def test_a_training_does_not_go_on_without_what_it_could_read_or_with_what_it_could_not(
    tmp_path: Path,
) -> None:
    whole = collection()

    def go_on(learned: int, measured: int, stop: Callable[[], bool] | None = None) -> None:
        """Train where one image of either collection is not there, the one of this number."""
        there = [
            features(replace(whole, images=whole.images[:lacking] + whole.images[lacking + 1 :]))
            for lacking in (learned, measured)
        ]
        train(CONFIG, "colours", tmp_path, (whole, there[0]), (whole, there[1]), stop=stop)

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


def test_training_stops_early_and_keeps_the_best_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    qualities = iter([1.0, 5.0, 5.0, 3.0, 9.0])
    monkeypatch.setattr(trainer, "_quality", lambda measured: next(qualities))
    bests: list[bool] = []

    def report(progress: Progress) -> None:
        if progress.validation is not None:
            bests.append(progress.best)

    best = run(tmp_path, replace(CONFIG, epochs=9, patience=2), report=report)
    assert bests == [True, True, False, False]
    assert [row["epoch"] for row in best.metrics["history"]] == [1, 2]


@pytest.mark.parametrize(("truth", "best"), [("meaning", 1), ("annotation", 2)])
def test_where_all_truth_is_known_the_best_epoch_retrieves_the_most_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, truth: str, best: int
) -> None:
    def measured(recall: float, precision: float) -> Evaluation:
        metrics = RankingMetrics(recall, recall, recall, 1, 1, precision, queries=4, tied=0)
        return Evaluation(4, 4, truth, metrics, metrics)

    found = iter([measured(10, 90), measured(20, 80)])
    monkeypatch.setattr(trainer, "evaluate", lambda *_: next(found))
    assert len(run(tmp_path, replace(CONFIG, epochs=2)).metrics["history"]) == best


def test_the_state_is_written_now_and_then_and_the_seconds_of_all_calls_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    written: list[tuple[int, int]] = []

    def passing(_: Progress) -> None:
        nonlocal now
        now += 4

    def watched(folder: Path, model: Any, optimizer: Any, notes: dict[str, Any]) -> None:
        written.append((notes["epoch"], notes["step"]))
        save_state(folder, model, optimizer, notes)

    monkeypatch.setattr(trainer, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(trainer, "SECONDS_BETWEEN_STATES", 10)
    monkeypatch.setattr(trainer, "save_state", watched)
    config = replace(CONFIG, epochs=1, batch_size=2)
    data = (collection(19), features(collection(19)))
    with pytest.raises(TrainingStopped):
        run(tmp_path, config, data, stop_after(7), passing)
    assert written == [(0, 3), (0, 6), (0, 7)]
    now = 0.0  # another process, another clock
    assert run(tmp_path, config, data, report=passing).metrics["seconds"] == 9 * 4


def test_the_coordinates_of_a_checkpoint_fall_in_weight_and_those_of_the_training_stay(
    tmp_path: Path,
) -> None:
    data = (collection(), features(collection()))
    model = run(tmp_path, replace(CONFIG, epochs=1)).model
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
    ("dtype", "precision", "read", "crowd"),
    [
        ("float32", "float32", features, 0),
        ("float16", "float32", features, 0),
        ("int8", "float32", features, 0),
        ("float32", "bfloat16", features, 0),
        ("float32", "float32", pixels, 0),
        ("float32", "float32", features, 20),
        ("int8", "float32", features, 20),
        ("float16", "float32", pixels, 20),
    ],
)
def test_what_a_checkpoint_says_of_itself_was_measured_on_the_weights_that_it_holds(
    dtype: StoredDtype,
    precision: Literal["float32", "bfloat16"],
    read: Callable[..., Any],
    crowd: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trainer, "_LEAST_CROWD", 10)
    data: tuple[Dataset, ImageInput] = (collection(30), features(collection(30)))
    if read is pixels:
        data = pixels(collection(30), tmp_path / "pictures")
    config = replace(CONFIG, model=replace(CONFIG.model, crowd=crowd))
    kept = run(tmp_path, replace(config, saved_dtype=dtype, precision=precision), data)
    points = dataset_points(kept.model, *data)
    measured = evaluate(data[0], *points, "order").to_json()
    said = kept.metrics["history"][-1]["validation"]
    for direction in ("caption_retrieval", "image_retrieval"):
        assert said[direction] == pytest.approx(measured[direction])
    meant = calibrations(data[0], *points, "order").image
    assert meant is not None
    assert kept.calibration.image is not None
    # To rounding: the coordinates were renumbered when they were saved.
    np.testing.assert_allclose(kept.calibration.image.violations, meant.violations, rtol=1e-5)
    stored = load_file(tmp_path / WEIGHTS)["images.projection.weight"].dtype
    assert stored == getattr(torch, dtype)
    assert kept.metrics["dataset"] == {"name": "colours", "images": 30, "captions": 60}


def test_a_crowd_is_of_the_training_and_evens_out_what_is_measured_and_not_what_is_learned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = (collection(30), features(collection(30)))
    assert run(tmp_path / "few", with_crowd(20), data).model.crowd is None  # too few to tell
    monkeypatch.setattr(trainer, "_LEAST_CROWD", 10)
    plain, evened = (
        run(tmp_path / "plain", data=data),
        run(tmp_path / "evened", with_crowd(99), data),
    )
    crowd = evened.model.crowd
    assert crowd is not None
    assert len(crowd.images) == len(crowd.captions) == 20  # and ten to tell what is usual
    assert evened.model.config.crowd == 20
    every = dataset_points(plain.model, *data)
    points = dataset_points(evened.model, *data)
    for found, unit, members in zip(points, every, (crowd.images, crowd.captions), strict=True):
        lengths = np.linalg.norm(found, axis=1)
        assert np.ptp(lengths) > 0.001
        # In all else it is the model that learned without one, of whose points each is another.
        np.testing.assert_allclose(found / lengths[:, None], unit, atol=1e-5)
        nearest = np.abs(members.numpy()[:, None] - unit).max(2)
        assert nearest.min(1).max() < 1e-5
    seen = np.abs(crowd.images.numpy()[:, None] - every[0]).max(2).argmin(1)
    assert len(set(seen.tolist())) == 20


def test_a_training_with_a_crowd_goes_on_as_if_it_had_not_been_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainer, "_LEAST_CROWD", 10)
    data = (collection(30), features(collection(30)))
    run(tmp_path / "whole", with_crowd(15), data)
    with pytest.raises(TrainingStopped):
        run(tmp_path / "stopped", with_crowd(15), data, stop=stop_after(12))
    run(tmp_path / "stopped", with_crowd(15), data)
    assert weights(tmp_path / "stopped") == weights(tmp_path / "whole")
    first = checkpoint.load(tmp_path / "whole", to_learn=True)
    still = replace(with_crowd(15), epochs=1, learning_rate=1e-9)
    then = train(still, "then", tmp_path / "then", data, data, start=first)
    for found, before in zip(*(dataset_points(m.model, *data) for m in (then, first)), strict=True):
        np.testing.assert_allclose(found, before, atol=1e-5)


def test_a_frozen_backbone_is_not_changed(tmp_path: Path) -> None:
    from models.encoders.backbone import build_backbone

    start = build_backbone("shufflenet_v2_x0_5").state_dict()
    dataset = collection()
    data = (dataset, features(dataset))
    trained = train(CONFIG, "frozen", tmp_path, data, data, backbone_weights=start)
    for key, value in trained.model.images.backbone.state_dict().items():
        assert value.equal(start[key]), key


def test_a_training_may_start_from_a_model_of_its_shape_and_words(tmp_path: Path) -> None:
    first = run(tmp_path / "first")
    data = (collection(), features(collection()))
    still = replace(CONFIG, epochs=1, learning_rate=1e-9)
    then = train(still, "then", tmp_path / "then", data, data, start=first)
    texts = [caption.text for caption in data[0].captions]
    np.testing.assert_allclose(
        then.model.encode_captions(texts), first.model.encode_captions(texts), atol=1e-5
    )
    with pytest.raises(TrainingError, match="another start"):
        run(tmp_path / "then", still)
    other = replace(still, model=replace(CONFIG.model, dimension=8))
    with pytest.raises(TrainingError, match=r"another shape \(dimension: \d+ there, 8 now\)"):
        train(other, "other", tmp_path / "other", data, data, start=first)
    with pytest.raises(TrainingError, match="other words"):
        train(replace(still, min_word_count=11), "o", tmp_path / "other", data, data, start=first)


def test_a_training_on_features_keeps_their_network_also_where_its_start_has_it_rounded(
    tmp_path: Path,
) -> None:
    start = dict(build_backbone("shufflenet_v2_x0_5").state_dict())
    data = (collection(), features(collection()))
    small = replace(CONFIG, epochs=1, saved_dtype="int8")
    first = train(small, "first", tmp_path / "first", data, data, backbone_weights=start)
    exact = replace(small, saved_dtype="float32")
    then = train(exact, "then", tmp_path / "then", data, data, backbone_weights=start, start=first)
    networks = (one.model.images.backbone for one in (first, then))
    assert len({network.fingerprint() for network in networks}) == 1
    for key, value in then.model.images.backbone.state_dict().items():
        assert value.equal(start[key]), key


def test_a_network_that_learns_begins_where_the_start_has_it(tmp_path: Path) -> None:
    data = pixels(collection(), tmp_path / "pictures")
    still = replace(CONFIG, epochs=1, learning_rate=1e-12)
    first = train(still, "first", tmp_path / "first", data, data)
    other = dict(build_backbone("shufflenet_v2_x0_5").state_dict())
    then = train(still, "then", tmp_path / "then", data, data, backbone_weights=other, start=first)
    weights = dict(first.model.images.backbone.named_parameters())
    for name, weight in then.model.images.backbone.named_parameters():
        torch.testing.assert_close(weight, weights[name], atol=1e-6, rtol=0)


def test_one_image_is_too_few(tmp_path: Path) -> None:
    data = (collection(1), features(collection(1)))
    with pytest.raises(DatasetError, match="at least two captioned images"):
        run(tmp_path, data=data)


def test_features_that_are_not_numbers_stop_the_training_at_their_own_step(tmp_path: Path) -> None:
    dataset = collection()
    spoiled = features(dataset)
    spoiled.features[3] = np.nan
    batches = a_run(CONFIG, tmp_path).batches.of_epoch(0, 0)
    (step,) = [step for step, rows, _, _ in batches if 3 in rows]
    with pytest.raises(TrainingError, match=f"the loss is nan in epoch 1, step {step + 1}:"):
        run(tmp_path, data=(dataset, spoiled))


def test_features_to_validate_on_that_are_not_numbers_are_looked_for(tmp_path: Path) -> None:
    dataset = collection()
    spoiled = features(dataset)
    spoiled.features[3] = np.inf
    with pytest.raises(TrainingError, match=r"after epoch 1 .* look for features"):
        train(CONFIG, "x", tmp_path, (dataset, features(dataset)), (dataset, spoiled))
    assert list(tmp_path.iterdir()) == [], "another rate can be tried in the same folder"


def test_there_is_a_state_before_there_is_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a model without one is not of a training that could go on."""

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    run(tmp_path / "straight")
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "save", killed)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "killed")
    assert [path.name for path in (tmp_path / "killed").iterdir()] == [FILE_NAME]
    steps: list[int] = []
    run(tmp_path / "killed", report=lambda now: steps.append(now.epoch))
    assert weights(tmp_path / "straight") == weights(tmp_path / "killed")
    assert steps.count(0) == 1, "the first epoch is only measured again"


@pytest.mark.parametrize("size", [0, 5, 2000])
def test_a_damaged_state_is_named(tmp_path: Path, size: int) -> None:
    run(tmp_path)
    state = tmp_path / FILE_NAME
    state.write_bytes(state.read_bytes()[:size])
    with pytest.raises(StateError, match=r"training\.safetensors is damaged \(.*delete this"):
        run(tmp_path)


def test_captions_without_words_are_said(tmp_path: Path) -> None:
    rare = "the captions of 'colours' have no word that comes 1,000 times: .* or lower min_word"
    with pytest.raises(DatasetError, match=rare):
        run(tmp_path, replace(CONFIG, min_word_count=1000))
    silent = tuple(
        replace(image, captions=tuple(replace(one, text="!") for one in image.captions))
        for image in collection().images
    )
    data = (Dataset("silent", silent), features(collection()))
    with pytest.raises(DatasetError, match=r"'silent' have no word: .* look at them$"):
        run(tmp_path, data=data)


def test_a_last_step_that_spoils_the_weights_stops_the_training(tmp_path: Path) -> None:
    rate = replace(CONFIG, batch_size=10, learning_rate=1e18, weight_decay=1e18)
    with pytest.raises(TrainingError, match=r"points are not numbers: .* lower --learning-rate"):
        run(tmp_path, rate)


def test_a_spoiled_weight_stops_the_training_also_where_rounding_would_hide_it(
    tmp_path: Path,
) -> None:
    training = a_run(replace(CONFIG, saved_dtype="int8"), tmp_path)
    with torch.no_grad():
        training.model.images.projection.weight[0, 0] = torch.nan
    with pytest.raises(TrainingError, match=r"points are not numbers: .* lower --learning-rate"):
        training.validate(None)


def test_the_next_batch_is_read_before_a_step_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened: list[str] = []

    class Pending:
        def __float__(self) -> float:
            happened.append("wait")
            return 1.0

    def learn(*_: object) -> Pending:
        happened.append("learn")
        return Pending()

    class Watched(FeatureInput):
        def read(self, rows, augment=None):  # type: ignore[no-untyped-def]
            if augment is not None:
                happened.append("read")
            return super().read(rows, augment)

    monkeypatch.setattr(Learner, "_learn", learn)
    images = features(collection())
    watched = Watched(images.image_ids, images.features)
    run(tmp_path, replace(CONFIG, epochs=1), (collection(), watched))
    assert happened == ["read", *["learn", "read", "wait"] * 2, "learn", "wait"]


@pytest.mark.parametrize(("count", "batches"), [(8, 2), (9, 2), (10, 3)])
def test_an_epoch_sees_every_image_once_and_none_alone(
    tmp_path: Path, count: int, batches: int
) -> None:
    seen: list[list[int]] = []
    images = features(collection(count))

    class Watched(FeatureInput):
        def read(self, rows, augment=None):  # type: ignore[no-untyped-def]
            if augment is not None:
                seen.append(rows.tolist())
            return super().read(rows, augment)

    watched = Watched(images.image_ids, images.features)
    run(tmp_path, replace(CONFIG, epochs=1), (collection(count), watched))
    assert sorted(row for batch in seen for row in batch) == list(range(count))
    assert len(seen) == batches
    assert all(len(batch) > 1 for batch in seen)
