"""Models by name: built-in ones, and those made of published encoders."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from hasse.models.calibration import Calibrations
from hasse.models.checkpoints import checkpoint, dual_encoder_folder
from hasse.models.checkpoints.dual_encoder_folder import EncoderFiles
from hasse.models.checkpoints.model_folder import CALIBRATION, CONFIG, CheckpointError, read_sums
from hasse.models.datasets import Dataset
from hasse.models.encoders.names import full_name
from hasse.models.files import lock_folder
from hasse.models.home import home
from hasse.models.regular_file import raise_system_error

PRETRAINED = Path(__file__).parents[1] / "pretrained"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def pretrained(name: str = "scenes") -> Path:
    """Return the folder of a checkpoint that comes with Hasse.

    Raises:
        CheckpointError: no built-in model has that name.
    """
    folder = PRETRAINED / name
    if not (folder / CONFIG).is_file():
        known = sorted(path.parent.name for path in PRETRAINED.glob(f"*/{CONFIG}"))
        raise CheckpointError(
            f"no built-in model is called '{name}'; there are: {', '.join(known) or 'none'}"
        )
    return folder


def find(name: Path) -> Path:
    """Return the folder of a checkpoint, by its path or by the name of a model.

    Names are those of built-in models and of those that 'hasse use' has made. A folder
    without a model does not hide a model of the same name: a clone has a folder `scenes`.
    """
    if len(name.parts) == 1 and not (name / CONFIG).exists():
        for folder in (PRETRAINED / name.name, made_models() / name.name):
            if folder.is_dir():
                return folder
    return name


def find_or_default(name: Path | None, dataset: Dataset) -> Path:
    """Return the folder by `find`, or, without a name, the built-in checkpoint for the pictures.

    This is `scenes` for drawn scenes, which have meanings, and `photographs` for all others.
    """
    if name is not None:
        return find(name)
    drawn = any(image.meaning is not None for image in dataset.images)
    return pretrained("scenes" if drawn else "photographs")


def find_recorded(name: str, fingerprint: str, folder: str) -> Path:
    """Return the folder of a checkpoint that an index records.

    A built-in one is recognized by name and fingerprint, wherever Hasse is installed now.

    Raises:
        CheckpointError: it is not built in, and its folder is not recorded or does not exist.
    """
    built_in = PRETRAINED / Path(name).name
    sums = read_sums(built_in)
    if sums is not None and checkpoint.fingerprint_of(sums) == fingerprint:
        return built_in
    if not folder:
        raise CheckpointError(
            f"the index does not say where its model '{name}' is: name it with --model"
        )
    if not Path(folder).is_dir():
        raise CheckpointError(
            f"the index was made by the model '{name}', which is not in {folder} any more: name "
            f"where it is with --model, or bring the library over to another with 'hasse use MODEL'"
        )
    return Path(folder)


def made_models() -> Path:
    """Return the folder of the models that 'hasse use' and 'hasse lab model make' make."""
    return home() / "models"


@dataclass(frozen=True, slots=True)
class Description:
    """Facts about a model, without loading it.

    Attributes:
        name: of the model, for commands.
        encoder: of pictures, and of texts if it is pretrained.
        dimension: coordinates of a point.
        megabytes: size on disk.
        calibrated: whether it gives probabilities.
        built_in: whether it comes with Hasse.
    """

    name: str
    encoder: str
    score: str
    dimension: int
    megabytes: float
    calibrated: bool
    built_in: bool
    folder: str

    def to_json(self) -> dict[str, object]:
        """Return plain values."""
        return asdict(self)


def make(name: str, files: EncoderFiles) -> Path:
    """Make a model of published encoders of pictures and texts, and return its folder.

    Raises:
        CheckpointError: the name is taken or impossible, or the encoders have no common space.
    """
    folder = require_free(name)
    with lock_folder(folder):
        require_free(name)
        try:
            dual_encoder_folder.save(folder, name, files)
        except CheckpointError:
            with suppress(OSError):  # what an earlier call has left there
                folder.rmdir()
            raise
    return folder


def is_made_of(name: str, source: Mapping[str, str]) -> bool:
    """Return whether a model of that name was made of files with these checksums."""
    try:
        config = json.loads((made_models() / name / CONFIG).read_bytes())
        return bool(config.get("source") == dict(source))
    except (OSError, ValueError, AttributeError):
        return False


def require_free(name: str) -> Path:
    """Return the folder of a model to be made.

    Raises:
        CheckpointError: the name is taken or impossible.
    """
    if not _NAME.fullmatch(name):
        raise CheckpointError(
            f"'{name}' cannot be the name of a model: use letters, digits, dots, dashes and "
            f"underscores"
        )
    folder = made_models() / name
    if (PRETRAINED / name).is_dir():
        raise CheckpointError(f"'{name}' is the name of a built-in model: choose another")
    if (folder / CONFIG).is_file():
        raise CheckpointError(
            f"there is a model '{name}' in {folder}: choose another name, or remove it first by "
            f"'hasse lab model remove {name}'"
        )
    return folder


def remove(name: str) -> Path:
    """Delete a model that is not built in, and return its folder.

    Raises:
        CheckpointError: no such model was made, or it comes with Hasse.
    """
    if (PRETRAINED / name).is_dir():
        raise CheckpointError(f"'{name}' comes with Hasse and stays")
    folder = made_models() / name
    if not _NAME.fullmatch(name) or not (folder / CONFIG).is_file():
        names = [model.name for model in describe_models() if not model.built_in]
        raise CheckpointError(
            f"no model '{name}' was made here; there is {', '.join(names) or 'none'}"
        )
    (folder / CONFIG).unlink()  # without it, a folder holds no model
    shutil.rmtree(folder)
    return folder


def describe_models() -> Iterator[Description]:
    """Describe the built-in models, then those made here, each sorted by name."""
    for parent in (PRETRAINED, made_models()):
        for path in sorted(parent.glob(f"*/{CONFIG}")):
            with suppress(CheckpointError):
                yield describe(path.parent)


def describe(folder: Path) -> Description:
    """Describe the model of a folder.

    Raises:
        CheckpointError: the folder holds no model for retrieval, or a damaged one.
    """
    try:
        config = json.loads((folder / CONFIG).read_bytes())
        calibration = Calibrations.from_json(json.loads((folder / CALIBRATION).read_bytes()))
        model = config["model"]
        return Description(
            str(config["name"]),
            model["encoder"] if "encoder" in model else full_name(model["backbone"]),
            str(model["score"]),
            int(model["dimension"]),
            sum(path.stat().st_size for path in folder.iterdir() if path.is_file()) / 1e6,
            calibration.image is not None,
            folder.parent == PRETRAINED,
            str(folder),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise_system_error(error)
        raise CheckpointError(
            f"{folder} holds no model for retrieval, or a damaged one: name another folder, or a "
            f"model of 'hasse lab model list'"
        ) from error
