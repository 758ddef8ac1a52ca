"""Steps before the first search: load the model and the index, sweep, compile kernels."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
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
from hasse.service.core.device import pick_device
from hasse.service.settings import Settings
from hasse.service.telemetry.logs import event

if TYPE_CHECKING:
    from hasse.models.captioning.phrases import PhraseWriter


@dataclass(frozen=True, slots=True)
class ModelLoader:
    """Loads the model that the settings name, or else the model that made their index.

    All methods raise CheckpointError if the checkpoint cannot be used, and DeviceError if this
    machine has no such device.

    Attributes:
        with_pictures: load what encodes pictures too, not captions alone.
        one_off: start fast, because this process answers one question.
    """

    settings: Settings
    with_pictures: bool = True
    one_off: bool = False

    def with_index(self) -> tuple[Checkpoint, Index]:
        """Load the model and open its index.

        Raises:
            HasseIndexError: the index cannot be used, or another model made it.
        """
        named = self._load_named()
        index = Index.open(
            self.settings.index,
            None if named is None else named.fingerprint,
            verify="later",
            device=self._device(),
            one_off=self.one_off,
        )
        with close_on_failure(index):
            return named or self._load_of(index), index

    def of(self, index: Index) -> Checkpoint:
        """Load the model of an index; raises ModelMismatchError if the settings name another."""
        model = self._load_named() or self._load_of(index)
        index.require_model(model.fingerprint)
        return model

    def alone(self) -> Checkpoint:
        """Load the model without its index; without an index too, load `photographs`."""
        if (named := self._load_named()) is not None:
            return named
        if self.settings.library is None and not self.settings.index.exists():
            return self._load(named_models.pretrained("photographs"))
        # The points of the index are not read.
        with Index.open(self.settings.index, verify="sizes", one_off=True) as index:
            return self._load_of(index)

    def _load_named(self) -> Checkpoint | None:
        """Load the model that the settings name, if they name one."""
        model = self.settings.model
        return None if model is None else self._load(named_models.find(model))

    def _load_of(self, index: Index) -> Checkpoint:
        """Load the model that made an index."""
        identity = index.model
        folder = named_models.find_recorded(
            identity.name, identity.fingerprint, identity.checkpoint
        )
        model = self._load(folder)
        if model.fingerprint != identity.fingerprint:
            raise ModelMismatchError(
                f"the checkpoint {folder} has changed since {index.folder} was built with it: "
                f"name the former one with --model, or run 'hasse use {folder}'"
            )
        return model

    def _load(self, folder: Path) -> Checkpoint:
        return checkpoint.load(
            folder,
            self._device(),
            with_pictures=self.with_pictures,
            one_off=self.one_off,
            runtime=self.settings.encoder_runtime,
        )

    def _device(self) -> str:
        # Only torch can look for a device. Importing it takes longer than encoding a text on a CPU.
        if not self.with_pictures and self.settings.device == "auto":
            return "cpu"
        return pick_device(self.settings.device)


def model_and_index(settings: Settings) -> tuple[Checkpoint, Index]:
    """Load the model of a service and open its index; raises as `ModelLoader.with_index`."""
    return ModelLoader(settings).with_index()


Load: TypeAlias = Callable[[Settings], tuple[Checkpoint, Index]]


@contextmanager
def close_on_failure(index: Index) -> Iterator[None]:
    """Close an index if the block raises."""
    try:
        yield
    except BaseException:
        index.close()
        raise


def load_captioner(model: Checkpoint) -> PhraseWriter | None:
    """Load the captioner of a model that has phrases.

    Raises:
        CheckpointError: the phrases cannot be used, or are for another model.
    """
    from hasse.models.captioning.phrases import PhraseWriter, has_phrases

    return PhraseWriter(model) if has_phrases(model) else None


def prepare(checkpoint: Checkpoint, index: Index) -> PhraseWriter | None:
    """Sweep the index, compile kernels and load the captioner; return it if there is one.

    Raises:
        CheckpointError: the captioner cannot be used.
    """
    sweep(index)
    warm(checkpoint, index)
    captioner = load_captioner(checkpoint)
    # What building a network and compiling took stays with the process otherwise: a sixth of it.
    with suppress(OSError, AttributeError, TypeError):  # a C library other than glibc
        ctypes.CDLL(None).malloc_trim(0)
    return captioner


def sweep(index: Index) -> None:
    """Remove the leftovers of killed writers, unless a writer is active or the disk refuses."""
    try:
        with index.writing(timeout=0.0):
            stored_pictures.sweep(index.folder, index.catalog)
    except (DiskFullError, IndexLockedError, NotLoadedError, ReadOnlyIndexError, OSError) as error:
        event("not swept", reason=str(error))


def warm(checkpoint: Checkpoint, index: Index) -> None:
    """Compile the kernels of searches and encoders, so that the first client does not wait."""
    event("preparing kernels", note="they are compiled once for each installation, for up to 60 s")
    from PIL import Image

    from hasse.index.search.compiling import compile_kernels

    compile_kernels(index.model.score)
    model = checkpoint.model
    captions = model.encode_captions(["a"])
    pictures = model.encode_images([Image.new("RGB", (32, 32))])
    queries: list[tuple[Kind, NDArray[np.float32]]] = [("image", captions), ("caption", pictures)]
    for kind, points in queries:
        index.search_batch(Query(kind, 1), points)
    penalties_between(index.model.score, pictures, captions)
