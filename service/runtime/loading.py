"""Steps before the first search: load model and index, sweep leftovers, compile kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hasse.index.errors import (
    DiskFullError,
    IndexLockedError,
    ModelMismatchError,
    NotLoadedError,
    ReadOnlyIndexError,
)
from hasse.index.search.query import Query
from hasse.index.segments import stored_pictures
from hasse.index.store import Index
from hasse.index.types import Kind
from hasse.models.checkpoints import checkpoint, named_models
from hasse.models.checkpoints.checkpoint import Checkpoint
from hasse.models.score import penalties_between
from hasse.service.runtime.device import pick_device
from hasse.service.runtime.logs import event
from hasse.service.settings import Settings

if TYPE_CHECKING:
    from hasse.models.captioning.writing import Describer


@dataclass(frozen=True, slots=True)
class ModelLoader:
    """Loads the model that settings name, or that which made their index.

    All methods raise CheckpointError where the checkpoint cannot be used, and DeviceError where
    this machine has no such device.

    Attributes:
        with_pictures: whether it will encode pictures, and not captions alone.
        one_off: whether this process answers one question, and is to be ready soon.
    """

    settings: Settings
    with_pictures: bool = True
    one_off: bool = False

    def with_index(self) -> tuple[Checkpoint, Index]:
        """Return the model and its index, open.

        Raises:
            HasseIndexError: the index cannot be used, or another model made it.
        """
        loaded = self._named()
        index = Index.open(
            self.settings.index,
            None if loaded is None else loaded.fingerprint,
            verify="later",
            device=self._device(),
            one_off=self.one_off,
        )
        with closed_on_failure(index):
            return loaded or self._own(index), index

    def of(self, index: Index) -> Checkpoint:
        """Return the model for an index; raises ModelMismatchError if another made it."""
        loaded = self._named() or self._own(index)
        index.require_model(loaded.fingerprint)
        return loaded

    def alone(self) -> Checkpoint:
        """Return the model, which is `photographs` where there is no index either."""
        if (loaded := self._named()) is not None:
            return loaded
        if self.settings.library is None and not self.settings.index.exists():
            return self._load(named_models.pretrained("photographs"))
        # Its points are not read.
        with Index.open(self.settings.index, verify="sizes", one_off=True) as index:
            return self._own(index)

    def _named(self) -> Checkpoint | None:
        model = self.settings.model
        return None if model is None else self._load(named_models.find(model))

    def _own(self, index: Index) -> Checkpoint:
        """Load the checkpoint that built an index."""
        model = index.model
        place = named_models.remembered(model.name, model.fingerprint, model.checkpoint)
        loaded = self._load(place)
        if loaded.fingerprint != index.model.fingerprint:
            raise ModelMismatchError(
                f"the checkpoint {place} has changed since {index.folder} was built with it: "
                f"name the former one with --model, or run 'hasse use {place}'"
            )
        return loaded

    def _load(self, folder: Path) -> Checkpoint:
        return checkpoint.load(
            folder,
            self._device(),
            with_pictures=self.with_pictures,
            one_off=self.one_off,
            runtime=self.settings.encoder_runtime,
        )

    def _device(self) -> str:
        # To look for a device takes torch, which takes longer to import than a text takes on a CPU.
        if not self.with_pictures and self.settings.device == "auto":
            return "cpu"
        return pick_device(self.settings.device)


def model_and_index(settings: Settings) -> tuple[Checkpoint, Index]:
    """Load the model of a service and open its index; raises as `ModelLoader.with_index`."""
    return ModelLoader(settings).with_index()


Load: TypeAlias = Callable[[Settings], tuple[Checkpoint, Index]]


@contextmanager
def closed_on_failure(index: Index) -> Iterator[None]:
    """Close an index if the block raises."""
    try:
        yield
    except BaseException:
        index.close()
        raise


def writer(settings: Settings, model: Checkpoint) -> Describer | None:
    """Load the captioner that the settings name, or that in the model's folder.

    Raises:
        CheckpointError: it cannot be used, or was trained for another model.
    """
    from hasse.models.captioning.writing import folder_of, writer_of

    if settings.captioner is None and not folder_of(model).is_dir():
        return None
    return writer_of(model, settings.captioner)


def prepare(checkpoint: Checkpoint, index: Index, settings: Settings) -> Describer | None:
    """Sweep, compile and load the captioner; return it if there is one.

    Raises:
        CheckpointError: the captioner cannot be used.
    """
    sweep(index)
    warm(checkpoint, index)
    return writer(settings, checkpoint)


def sweep(index: Index) -> None:
    """Remove what killed writers left, unless a writer is active or the disk refuses it."""
    try:
        with index.writing(timeout=0.0):
            stored_pictures.sweep(index.folder, index.catalog)
    except (
        DiskFullError,
        IndexLockedError,
        NotLoadedError,
        ReadOnlyIndexError,
        OSError,
    ) as error:
        event("not swept", reason=str(error))


def warm(checkpoint: Checkpoint, index: Index) -> None:
    """Compile the kernels of searches and encoders now, and not for the first client."""
    event("preparing kernels", note="they are compiled once for each installation, for up to 60 s")
    from PIL import Image

    from hasse.index.search.compiling import compile_kernels

    compile_kernels(index.model.score)
    model = checkpoint.model
    captions = model.encode_captions(["a"])
    pictures = model.encode_images([Image.new("RGB", (32, 32))])
    given: list[tuple[Kind, NDArray[np.float32]]] = [("image", captions), ("caption", pictures)]
    for kind, points in given:
        index.search_batch(Query(kind, 1), points)
    penalties_between(index.model.score, pictures, captions)
