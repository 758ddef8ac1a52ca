"""A collection of coloured pictures, and trainings on it that take a fraction of a second."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

import hasse.service.pipelines  # noqa: F401 (registers the reader of scenes' meanings)
from hasse.lab.features.pixel_store import cache_pixels
from hasse.lab.training.config import TrainingConfig
from hasse.lab.training.distributed import ALONE, World
from hasse.lab.training.inputs import FeatureInput, ImageInput, PixelInput, TrainingInputs
from hasse.lab.training.lesson import Measurement
from hasse.lab.training.run import Progress
from hasse.lab.training.trainer import RetrievalTraining
from hasse.models.checkpoints import checkpoint
from hasse.models.checkpoints.model_folder import WEIGHTS
from hasse.models.datasets import Caption, Dataset, Image
from hasse.models.encoders.model_config import ModelConfig
from hasse.models.images.preprocessing import Preprocessing
from hasse.scenes import scene_and_captions
from tests.tiny import TINY
from tests.tiny_network import FEATURES

Report = Callable[[Progress[Measurement]], None]
COLOURS = {"red": (220, 40, 40), "green": (40, 180, 60), "blue": (40, 60, 220)}
SHAPES = ("dark", "bright")
CONFIG = TrainingConfig(
    model=ModelConfig(backbone=TINY, dimension=12, word_dimension=8),
    preprocessing=Preprocessing(resize=36, crop=32),
    epochs=4,
    batch_size=4,
    learning_rate=0.01,
)


def with_hubness(size: int) -> TrainingConfig:
    return replace(CONFIG, model=replace(CONFIG.model, hubness=size))


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
    return FeatureInput(ids, rng.random((len(ids), FEATURES), dtype=np.float32))


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
    report: Report | None = None,
    kind: type[RetrievalTraining] = RetrievalTraining,
) -> checkpoint.Checkpoint:
    dataset = collection()
    data = data or (dataset, features(dataset))
    return kind(config, folder, TrainingInputs(data, data)).train(report, stop)


class FewReferences(RetrievalTraining):
    """Corrects hubness by as few points as the collection has."""

    least_references = 10


def a_training(
    config: TrainingConfig,
    folder: Path,
    data: tuple[Dataset, ImageInput] | None = None,
    world: World = ALONE,
) -> RetrievalTraining:
    """Return a training that has not begun, on the features of the collection."""
    data = data or (collection(), features(collection()))
    return RetrievalTraining(config, folder, TrainingInputs(data, data), world=world)


def first_step(training: RetrievalTraining) -> None:
    training.step(0, 0, next(training.batches(0, 0)))


def stop_after(steps: int) -> Callable[[], bool]:
    asked = iter(range(steps))
    return lambda: next(asked, None) is None
