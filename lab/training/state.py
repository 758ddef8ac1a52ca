"""The state of a training on disk: a stopped or killed training resumes from it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from hasse.lab.tensors import arrays
from hasse.models.encoders.model_config import without_options_of_studies
from hasse.models.errors import HasseError
from hasse.models.tensor_files import system_errors, write_weights

FILE_NAME = "training.safetensors"
_LESSON_OPTIONS = frozenset(
    {"distillation", "other_texts", "derived", "classes", "class_pictures", "decoding"}
)


class StateError(HasseError):
    """A training cannot resume from its state; the message has the reason and the remedy."""


def save_state(
    folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, notes: Mapping[str, Any]
) -> None:
    """Write weights, optimiser moments and notes as one file, whole or not at all."""
    tensors = {f"model.{key}": value for key, value in model.state_dict().items()}
    for number, moments in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{number}.{key}": value for key, value in moments.items()}
    write_weights(folder / FILE_NAME, arrays(tensors), {"notes": json.dumps(notes)})


def read_notes(folder: Path) -> dict[str, Any] | None:
    """Return the notes of a training begun in `folder`, or None if there is none.

    Raises:
        StateError: the file is damaged.
    """
    path = folder / FILE_NAME
    if not path.is_file():
        return None
    try:
        with system_errors(path), safe_open(path, "pt") as file:
            notes: dict[str, Any] = json.loads(file.metadata()["notes"])
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise StateError(
            f"{path} is damaged ({error}): restore it; or choose another folder, or delete this "
            f"one, to begin again"
        ) from error
    return _current(notes)


def _current(notes: dict[str, Any]) -> dict[str, Any]:
    """Return notes as this version writes them.

    0.2.0 wrote the options of lessons among those of the training. Earlier versions wrote the
    options of studies' models for all models.
    """
    config = notes.get("config")
    if isinstance(config, dict) and isinstance(config.get("model"), dict):
        model = {"model": without_options_of_studies(config["model"])}
        notes = notes | {"config": without_options_of_studies(config) | model}
    lessons = notes.get("texts"), notes.get("word_vectors")
    if "lessons" in notes or "texts" not in notes or any(option is not None for option in lessons):
        return notes
    options = {key: value for key, value in notes["config"].items() if key not in _LESSON_OPTIONS}
    return notes | {"config": {"least_steps": 0} | options, "lessons": []}


def load_state(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Read the weights and moments that `save_state` wrote, in place."""
    weights: dict[str, Tensor] = {}
    moments: dict[int, dict[str, Tensor]] = {}
    with safe_open(folder / FILE_NAME, "pt") as file:
        for key in file.keys():  # noqa: SIM118 (not a mapping)
            kind, rest = key.split(".", 1)
            if kind == "model":
                weights[rest] = file.get_tensor(key)
            else:
                number, moment = rest.split(".")
                moments.setdefault(int(number), {})[moment] = file.get_tensor(key)
    model.load_state_dict(weights)
    learned = [weight for group in optimizer.param_groups for weight in group["params"]]
    for number, values in moments.items():
        for key, value in values.items():
            if value.shape == learned[number].shape:
                # In the memory layout of the weight, as fused optimisers need.
                values[key] = torch.empty_like(learned[number]).copy_(value)
    state = optimizer.state_dict()
    optimizer.load_state_dict({"state": moments, "param_groups": state["param_groups"]})


def first_difference(folder: Path, identity: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the first key of an identity that differs in `folder`, and the difference.

    None where there is no training, or the same one.

    Raises:
        StateError: the file is damaged.
    """
    notes = read_notes(folder)
    if notes is None:
        return None
    differences = ((key, difference(notes.get(key), value)) for key, value in identity.items())
    return next(((key, change) for key, change in differences if change), None)


def difference(saved: Any, current: Any) -> str:
    """Describe how a saved note differs from the current one; "" if they are equal."""
    current = _as_json(current)
    if saved == current:
        return ""
    if isinstance(saved, dict) and isinstance(current, dict):
        for key in current | saved:  # in a fixed order, for a fixed message
            if saved.get(key) != current.get(key):
                return f"{key}: {difference(saved.get(key), current.get(key))}"
    return f"{saved} there, {current} now"


def _as_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _as_json(part) for key, part in value.items()}
    return [_as_json(part) for part in value] if isinstance(value, list | tuple) else value
