"""The folder of a trained model, of any kind: how it is read, and what is said of a wrong one.

config.json says what kind of model it is, model.safetensors holds its weights, and each kind has
files of its own beside them. None of the files can run code.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from models.files import alone_in
from models.stored import from_stored

WEIGHTS, CONFIG = "model.safetensors", "config.json"
UNNAMED = "retrieval"  # the kind of a model whose config.json names none


class CheckpointError(Exception):
    """A checkpoint that cannot be used; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class ModelKind:
    """A kind of model that a command trains.

    Attributes:
        name: what config.json calls it.
        command: what trains one.
        format: of its files.
        needs: the files that it has beside config.json and the weights.
        may_have: files that it can do without.
    """

    name: str
    command: str
    format: int
    needs: tuple[str, ...]
    may_have: tuple[str, ...] = ()

    @contextmanager
    def described(self, folder: Path) -> Iterator[dict[str, Any]]:
        """Yield what config.json of a folder says, to read the other files but the weights by.

        Raises:
            CheckpointError: a file is missing, or the model is of another kind or format; or a
                ValueError, KeyError, TypeError or AttributeError says that a file is damaged.
        """
        self._require(folder, CONFIG)
        try:
            config: dict[str, Any] = json.loads((folder / CONFIG).read_bytes())
            if (found := config.get("kind", UNNAMED)) != self.name:
                raise CheckpointError(
                    f"{folder} holds a model of {found}, not of {self.name}: name a folder that "
                    f"'{self.command}' wrote"
                )
            if config["format"] != self.format:
                raise CheckpointError(
                    f"{folder / CONFIG} has format {config['format']}; this version reads "
                    f"{self.format}: train the model again or use the version that made it"
                )
            for name in (*self.needs, WEIGHTS):
                self._require(folder, name)
            yield config
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            read = ", ".join((CONFIG, *self.needs, *self.may_have))
            raise CheckpointError(
                f"{folder} is damaged: one of {read} cannot be read ({error}); restore it or "
                f"train the model again"
            ) from error

    @contextmanager
    def unchanged(self, folder: Path) -> Iterator[None]:
        """Read a model that a training may write anew at any time.

        Raises:
            CheckpointError: it was written meanwhile, so its files may be of two models.
        """
        before, failed = self._written(folder), None
        try:
            yield
        except CheckpointError as error:  # files of two models do not go together
            failed = error
        if self._written(folder) != before:
            raise CheckpointError(
                f"{folder} was written while it was read: do the same again, for a training that "
                f"goes on writes each best epoch there"
            ) from failed
        if failed is not None:
            raise failed

    def _written(self, folder: Path) -> list[tuple[int, int, int]]:
        """Return what tells the files that are there from others of their names."""
        paths = (folder / name for name in (CONFIG, WEIGHTS, *self.needs, *self.may_have))
        found = (path.stat() for path in paths if path.is_file())
        return [(file.st_ino, file.st_mtime_ns, file.st_size) for file in found]

    def _require(self, folder: Path, name: str) -> None:
        if not (folder / name).is_file():
            raise CheckpointError(
                f"{folder} holds no model of {self.name}: it has no {name}; train one with "
                f"'{self.command}', or name another folder"
            )


@contextmanager
def new_model(folder: Path) -> Iterator[None]:
    """Keep other processes out of the folder that a new model goes to, as `alone_in` does.

    Raises:
        CheckpointError: it holds a model, which would be lost.
        FolderTakenError: another process is in it.
    """
    with alone_in(folder):
        require_no_model(folder)
        yield


def require_no_model(folder: Path) -> None:
    """Refuse a folder that holds a model, of any kind, which would be lost (CheckpointError)."""
    if (folder / CONFIG).is_file():
        raise CheckpointError(
            f"{folder} holds a model already: choose another --out, or delete it to train again"
        )


@contextmanager
def weights(folder: Path) -> Iterator[dict[str, Tensor]]:
    """Yield the weights of a folder, as float32, to make a model of.

    Raises:
        CheckpointError: they are damaged or not finite; or a RuntimeError, ValueError or KeyError
            says that they are of another model.
    """
    path = folder / WEIGHTS
    try:
        found = from_stored(load_file(path))
        # What is not a number is no worse than anything, and would be measured as perfect.
        spoiled = next((key for key, value in found.items() if not value.isfinite().all()), None)
        if spoiled is not None:
            raise CheckpointError(
                f"{path} has weights that are not finite numbers ({spoiled}): restore it or train "
                f"the model again, at a lower learning rate"
            )
        yield found
    except (SafetensorError, RuntimeError, ValueError, KeyError) as error:
        reason = str(error).splitlines()[0]
        raise CheckpointError(
            f"{path} does not hold the weights of {CONFIG} ({reason}); restore it or train the "
            f"model again"
        ) from error
