"""Steps before the first search: load model and index, sweep leftovers, compile kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
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

Load: TypeAlias = Callable[[Path], Checkpoint]


def model_and_index(
    settings: Settings, *, with_pictures: bool = True, one_off: bool = False
) -> tuple[Checkpoint, Index]:
    """Load the checkpoint and open its index; without `with_pictures` it encodes captions only.

    `one_off` is for a process that answers one question.

    Raises:
        CheckpointError: the checkpoint cannot be used.
        index.errors.HasseIndexError: the index cannot be used, or another model made it.
        service.runtime.device.DeviceError: this machine has no such device.
    """
    device = _device(settings, with_pictures=with_pictures)
    load = _loader(settings, device, with_pictures=with_pictures, one_off=one_off)
    loaded = None if settings.model is None else load(named_models.find(settings.model))
    fingerprint = loaded.fingerprint if loaded else None
    index = Index.open(settings.index, fingerprint, verify="later", device=device, one_off=one_off)
    with closed_on_failure(index):
        loaded = loaded or _its_own_model(index, load)
    return loaded, index


@contextmanager
def closed_on_failure(index: Index) -> Iterator[None]:
    """Close an index if the block raises."""
    try:
        yield
    except BaseException:
        index.close()
        raise


def model_for(index: Index, settings: Settings) -> Checkpoint:
    """Load the checkpoint that the settings name for an index, or else the one that made it.

    Raises:
        CheckpointError: the checkpoint cannot be used.
        ModelMismatchError: another model made the index.
        service.runtime.device.DeviceError: this machine has no such device.
    """
    load = _loader(settings, pick_device(settings.device))
    if settings.model is None:
        return _its_own_model(index, load)
    loaded = load(named_models.find(settings.model))
    index.require_model(loaded.fingerprint)
    return loaded


def model_without_index(
    settings: Settings, *, with_pictures: bool = True, one_off: bool = False
) -> Checkpoint:
    """Load the checkpoint that is named, else that of the index; without either, `photographs`.

    Raises:
        Exception: as `model_and_index`.
    """
    device = _device(settings, with_pictures=with_pictures)
    load = _loader(settings, device, with_pictures=with_pictures, one_off=one_off)
    if settings.model is not None:
        return load(named_models.find(settings.model))
    if settings.library is None and not settings.index.exists():
        return load(named_models.pretrained("photographs"))
    # Its points are not read.
    with Index.open(settings.index, verify="sizes", one_off=True) as index:
        return _its_own_model(index, load)


def _device(settings: Settings, *, with_pictures: bool) -> str:
    """Return torch's name of the device; raises DeviceError."""
    # To look for a device takes torch, which takes longer to import than a text takes on a CPU.
    if not with_pictures and settings.device == "auto":
        return "cpu"
    return pick_device(settings.device)


def _loader(
    settings: Settings, device: str, *, with_pictures: bool = True, one_off: bool = False
) -> Load:
    return partial(
        checkpoint.load,
        device=device,
        with_pictures=with_pictures,
        one_off=one_off,
        runtime=settings.encoder_runtime,
    )


def _its_own_model(index: Index, load: Load) -> Checkpoint:
    """Load the checkpoint that built an index."""
    model = index.model
    named = named_models.remembered(model.name, model.fingerprint, model.checkpoint)
    loaded = load(named)
    if loaded.fingerprint != index.model.fingerprint:
        raise ModelMismatchError(
            f"the checkpoint {named} has changed since {index.folder} was built with it: "
            f"name the former one with --model, or run 'hasse use {named}'"
        )
    return loaded


def writer(settings: Settings, model: Checkpoint) -> Describer | None:
    """Load the captioner that the settings name, or that in the model's folder.

    Raises:
        CheckpointError: it cannot be used, or was trained for another model.
    """
    from hasse.models.captioning.checkpoint import folder_of
    from hasse.models.captioning.writing import writer_of

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
