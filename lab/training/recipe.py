"""Recipes: the options of a training as a TOML file.

A recipe sets options of `TrainingConfig`, `ModelConfig`, `Preprocessing` and lessons, without
tables: no two of them share a name. Missing options keep their defaults. Each trained model has
its recipe beside it, to train it again.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Self, get_type_hints

from pydantic import TypeAdapter, ValidationError

from hasse.lab.training.config import TrainingConfig
from hasse.lab.training.run import TrainingError
from hasse.models.encoders.model_config import ModelConfig, without_options_of_studies
from hasse.models.files import write_atomically

RECIPES = Path(__file__).parent / "recipes"
FILE_NAME = "recipe.toml"
_MODEL = ModelConfig()


@dataclass(frozen=True, slots=True)
class Recipe:
    """The options of a training.

    Attributes:
        config: options of the training, the model and the preprocessing.
        lessons: the options of each lesson that has any, as dataclasses.
    """

    config: TrainingConfig = field(default_factory=TrainingConfig)
    lessons: tuple[Any, ...] = ()

    @classmethod
    def read(
        cls,
        path: Path,
        lessons: tuple[Any, ...] = (),
        model: ModelConfig = _MODEL,
    ) -> Self:
        """Read a file.

        `lessons` and `model` hold the defaults of options that the file does not set.

        Raises:
            TrainingError: it is not a recipe, or has an unknown option.
        """
        try:
            options = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise TrainingError(f"the recipe {path} cannot be read: {error}") from None
        options = without_options_of_studies(options)  # an earlier version wrote them
        return cls(TrainingConfig(model), lessons).with_options(options)

    def with_options(self, options: Mapping[str, Any]) -> Self:
        """Return the recipe with some options replaced. Values may be text.

        Raises:
            TrainingError: an option is unknown, or cannot have that value.
        """
        parts = (self.config, self.config.model, self.config.preprocessing, *self.lessons)
        known = [_types(type(part)) for part in parts]
        changes: list[dict[str, Any]] = [{} for _ in parts]
        for name, value in options.items():
            at = next((at for at, names in enumerate(known) if name in names), None)
            if at is None:
                options_here = ", ".join(sorted(option for names in known for option in names))
                raise TrainingError(
                    f"there is no training option '{name}'; there are: {options_here}"
                )
            try:
                changes[at][name] = known[at][name].validate_python(value)
            except ValidationError as error:
                reason = error.errors()[0]["msg"].lower()
                raise TrainingError(f"{name} cannot be '{value}': {reason}") from None
        try:
            model, preprocessing, *lessons = (
                replace(part, **changed)
                for part, changed in zip(parts[1:], changes[1:], strict=True)
            )
            config = replace(self.config, model=model, preprocessing=preprocessing, **changes[0])
        except ValueError as error:
            raise TrainingError(f"these options do not go together: {error}") from None
        return replace(self, config=config, lessons=tuple(lessons))

    def write(self, folder: Path) -> None:
        """Write all options into a folder, including defaults."""
        lines = ["# The options of this model's training, to train it again with --recipe."]
        for part in (self.config, self.config.model, self.config.preprocessing, *self.lessons):
            names = _types(type(part))
            lines += [f"{name} = {json.dumps(getattr(part, name))}" for name in names]
        write_atomically(folder / FILE_NAME, "\n".join([*lines, ""]).encode())


def find(name: str, folders: Sequence[Path] = (RECIPES,)) -> Path:
    """Return the file of a recipe: `name` is a path, or the name of one in a folder.

    Raises:
        TrainingError: there is none.
    """
    if Path(name).is_file():
        return Path(name)
    recipes = {path.stem: path for folder in folders for path in sorted(folder.glob("*.toml"))}
    if name not in recipes:
        raise TrainingError(
            f"there is no recipe '{name}': name a file, or one of {', '.join(recipes)}"
        )
    return recipes[name]


def _types(owner: type[Any]) -> dict[str, TypeAdapter[Any]]:
    """Return the names of a dataclass's options, with the adapters that check their values."""
    hints = get_type_hints(owner)
    names = (option.name for option in fields(owner))
    return {name: TypeAdapter(hints[name]) for name in names if not is_dataclass(hints[name])}
