from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import pytest

from hasse.lab.training.config import TrainingConfig
from hasse.lab.training.recipe import FILE_NAME, RECIPES, Recipe, find
from hasse.lab.training.run import TrainingError
from hasse.models.score import SCORES


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a lesson."""

    patches: int = 3
    share: float = 0.5


def named(name: str) -> TrainingConfig:
    return Recipe.read(find(name)).config


def test_each_score_of_the_paper_has_the_recipe_of_its_name() -> None:
    for score in SCORES:
        config = named(score)
        assert config.model.score == score
        assert (config.model.dimension, config.model.word_dimension) == (1024, 300)
        assert config.model.backbone == "torchvision/vgg19"
        assert config.margin == (0.2 if score == "cosine" else 0.05)
        assert (config.batch_size, config.captions_per_image) == (128, 1)
        assert (config.learning_rate, config.clip_norm) == (1e-3, 2.0)


@pytest.mark.parametrize("path", sorted(RECIPES.glob("*.toml")), ids=lambda path: path.stem)
def test_written_recipe_is_read_as_the_same(tmp_path: Path, path: Path) -> None:
    recipe = Recipe.read(path, (Options(),)).with_options({"patches": "7", "seed": 2**62})
    recipe.write(tmp_path)
    again = Recipe.read(tmp_path / FILE_NAME, (Options(),))
    assert again == recipe
    assert again.lessons == (Options(7, 0.5),)


def test_recipe_of_an_earlier_version_names_the_usual_options_of_studies(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        "epochs = 3\ndropout = 0.0\nstates = 0\ntext_encoder = 'gru'\nimage_map = 'linear'"
    )
    assert Recipe.read(path).config == TrainingConfig(epochs=3)
    path.write_text("states = 5")
    with pytest.raises(TrainingError, match="no training option 'states'"):
        Recipe.read(path)


def test_recipe_that_cannot_be_used_is_refused_with_its_reason(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    for text, reason in (
        ("epochs = ", "mine.toml cannot be read"),
        ("epochs = 'many'", "epochs cannot be 'many': input should be"),
        ("patches = 3", "no training option 'patches'; there are: backbone, .*margin"),
        ("epochs = 0", "do not go together: epochs"),
        ("[model]\nscore = 'cosine'", "no training option 'model'"),
    ):
        path.write_text(text)
        with pytest.raises(TrainingError, match=reason):
            Recipe.read(path)
    with pytest.raises(TrainingError, match=r"no recipe .photo.*one of cosine, hasse"):
        find("photo")
    assert find(str(path)) == path


@pytest.mark.parametrize(
    ("images", "batch", "rate"),
    [(6000, 512, 8e-3), (4096, 512, 8e-3), (4095, 256, 4e-3), (1000, 64, 1e-3), (20, 32, 5e-4)],
)
def test_few_images_are_learned_in_smaller_batches_at_a_lower_rate(
    images: int, batch: int, rate: float
) -> None:
    config = named("hasse").for_images(images)
    assert config.batch_size == batch
    assert config.learning_rate == pytest.approx(rate)
    assert config.for_images(images) == config, "the batch is made smaller once"
    assert named("order").for_images(images) == named("order")


def test_a_small_batch_is_left_as_it_is() -> None:
    config = TrainingConfig(batch_size=16, least_steps=8)
    assert config.for_images(20) == replace(config, least_steps=0)


@pytest.mark.parametrize(("has", "precision"), [(True, "bfloat16"), (False, "float32")])
def test_a_device_without_products_in_bfloat16_learns_without(
    has: bool, precision: Literal["float32", "bfloat16"]
) -> None:
    of = {"cuda:1": has, "cpu": not has}
    there = named("hasse").for_device("cuda:1", of.__getitem__)
    assert there == replace(named("hasse"), precision=precision)
    assert named("order").for_device("cpu") == named("order")
