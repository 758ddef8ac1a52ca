"""The folder of a model of any kind, written and read whole.

config.json names the kind of model, other files hold its weights, and each kind has further ones.
SHA256SUMS has the checksums of all, in the format of `sha256sum --check`: files are written one by
one, and checksums detect a mixture of two epochs. None of the files can run code.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import NDArray

from hasse.models.errors import HasseError
from hasse.models.files import write_atomically
from hasse.models.regular_file import raise_system_error
from hasse.models.tensor_files import write_weights

WEIGHTS, CONFIG, VOCABULARY = "model.safetensors", "config.json", "vocabulary.json"
CALIBRATION, METRICS = "calibration.json", "metrics.json"
SUMS = "SHA256SUMS"
UNNAMED = "retrieval"  # the kind of a model without a kind in config.json


class CheckpointError(HasseError):
    """A checkpoint cannot be used; the message has the reason and the remedy."""


class ModelFiles(NamedTuple):
    """The content of config.json, and the checksums of all files by name."""

    config: dict[str, Any]
    sums: dict[str, str]


@dataclass(frozen=True, slots=True)
class ModelKind:
    """A kind of model that a command makes.

    Attributes:
        name: its name in config.json.
        command: the command that makes one.
        format: number of the format of its files.
        other_files: names of the files beside config.json and the weights.
        weights: names of the files of the weights.
        optional: names of further files that large weights have.
        older: what to do about a model of another format.
    """

    name: str
    command: str
    format: int
    other_files: tuple[str, ...]
    weights: tuple[str, ...] = (WEIGHTS,)
    optional: tuple[str, ...] = ()
    older: str = "train the model again or use the version that made it"

    def save(
        self,
        folder: Path,
        config: Mapping[str, Any],
        tensors: Mapping[str, NDArray[Any]],
        other_files: Mapping[str, bytes],
    ) -> None:
        """Write a model, each file whole or not at all; adds kind and format to `config`.

        The largest file is first and config.json last: without it a folder holds no model.
        """
        folder.mkdir(parents=True, exist_ok=True)
        write_weights(folder / WEIGHTS, tensors)
        self.complete(folder, config, other_files)

    def complete(
        self, folder: Path, config: Mapping[str, Any], other_files: Mapping[str, bytes]
    ) -> None:
        """Write the files beside the weights, which are there already, as `save` does."""
        kind = {} if self.name == UNNAMED else {"kind": self.name}
        config_json = json.dumps(kind | {"format": self.format, **config}, indent=2).encode()
        for name, content in other_files.items():
            write_atomically(folder / name, content)
        present = (name for name in (*self.weights, *self.optional) if (folder / name).is_file())
        sums = {name: sum_of(folder / name) for name in present}
        for name, content in (*other_files.items(), (CONFIG, config_json)):
            sums[name] = hashlib.sha256(content).hexdigest()
        _write_sums(folder, sums)
        write_atomically(folder / CONFIG, config_json)

    def replace(self, folder: Path, name: str, content: bytes) -> None:
        """Replace one of the other files of a model."""
        sums = read_sums(folder) or {}
        sums[name] = hashlib.sha256(content).hexdigest()
        write_atomically(folder / name, content)
        _write_sums(folder, sums)

    @contextmanager
    def open(self, folder: Path) -> Iterator[ModelFiles]:
        """Read a model, and compare its files with their checksums afterwards.

        A file is never replaced by an earlier version. So if the files match the checksums at the
        end, they matched them all the time.

        Raises:
            CheckpointError: a file is missing or differs from its checksum (the message names it);
                or the model is of another kind or format; or the caller's block raised a
                ValueError, KeyError, TypeError or AttributeError, which a damaged file causes.
        """
        self._require(folder, CONFIG)
        sums = read_sums(folder)
        config = self._config(folder)
        if sums is None:
            patterns = (
                end for end in ("*.json", "*.safetensors", "*.onnx*") if any(folder.glob(end))
            )
            raise CheckpointError(
                f"{folder} has no {SUMS}, so its files cannot be checked: restore it, or, if you "
                f"know that they are right, make it there by 'sha256sum {' '.join(patterns)} "
                f"> {SUMS}'"
            )
        for name in (*self.other_files, *self.weights):
            self._require(folder, name)
        failed = None
        try:
            yield ModelFiles(config, sums)
        except CheckpointError as error:
            failed = error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            failed = _unreadable(folder, (CONFIG, *self.other_files), error)
            failed.__cause__ = error
        if (torn := self._torn(folder, sums)) is not None:
            raise CheckpointError(
                f"{torn} is not what {SUMS} says: a training writes the model just now (do the "
                f"same again), or was stopped while it did (let it go on, by the same command), or "
                f"the file is damaged (restore it)"
            ) from failed
        if failed is not None:
            raise failed

    def is_torn(self, folder: Path) -> bool:
        """Return whether a folder holds a model with files of two epochs."""
        is_there = (folder / CONFIG).is_file()
        return is_there and self._torn(folder, read_sums(folder) or {}) is not None

    def _torn(self, folder: Path, sums: Mapping[str, str]) -> Path | None:
        """Return the first file that differs from its checksum, or None."""
        optional = (name for name in self.optional if name in sums)
        names = (CONFIG, *self.other_files, *self.weights, *optional)
        files = (folder / name for name in names)
        return next((path for path in files if not _is_whole(path, sums)), None)

    def _config(self, folder: Path) -> dict[str, Any]:
        """Read config.json of a folder; it has to be of this kind and format."""
        try:
            config: dict[str, Any] = json.loads((folder / CONFIG).read_bytes())
            kind, version = config.get("kind", UNNAMED), config["format"]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise _unreadable(folder, (CONFIG,), error) from error
        if kind != self.name:
            raise CheckpointError(
                f"{folder} holds a model of {kind}, not of {self.name}: name a folder that "
                f"'{self.command}' wrote"
            )
        if version != self.format:
            raise CheckpointError(
                f"{folder / CONFIG} has format {version}; this version reads {self.format}: "
                f"{self.older}"
            )
        return config

    def _require(self, folder: Path, name: str) -> None:
        if not (folder / name).is_file():
            raise CheckpointError(
                f"{folder} holds no model of {self.name}: it has no {name}; train one with "
                f"'{self.command}', or name another folder"
                + (" or a model of 'hasse lab model list'" if self.name == UNNAMED else "")
            )


def require_no_model(folder: Path) -> None:
    """Refuse a folder that holds a model of any kind, which would be lost (CheckpointError)."""
    if (folder / CONFIG).is_file():
        raise CheckpointError(
            f"{folder} holds a model already: choose another --out, or delete it to train again"
        )


def kind_of(folder: Path) -> str | None:
    """Return the kind of a folder's model; None if there is none, or it is damaged."""
    try:
        return str(json.loads((folder / CONFIG).read_bytes()).get("kind", UNNAMED))
    except (OSError, ValueError, AttributeError) as error:
        raise_system_error(error)
        return None


def _write_sums(folder: Path, sums: Mapping[str, str]) -> None:
    lines = (f"{checksum}  {name}\n" for name, checksum in sums.items())
    write_atomically(folder / SUMS, "".join(lines).encode())


def read_sums(folder: Path) -> dict[str, str] | None:
    """Read the checksums of a folder's files, by their names; None if it has no checksums."""
    path = folder / SUMS
    if not path.is_file():
        return None
    lines = (line.split() for line in path.read_text(errors="replace").splitlines())
    # sha256sum marks files read in binary mode by a star.
    return {line[1].removeprefix("*"): line[0] for line in lines if len(line) == 2}


def _is_whole(path: Path, sums: Mapping[str, str]) -> bool:
    return path.is_file() and sums.get(path.name) == sum_of(path)


def sum_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _unreadable(folder: Path, names: Iterable[str], error: Exception) -> CheckpointError:
    files = ", ".join(names)
    return CheckpointError(
        f"{folder} is damaged: {files} cannot be read ({error}); restore it or "
        f"train the model again"
    )
