"""Encode pictures on all processors or GPUs of a cluster: the same bits, in the same order."""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from hasse.models.datasets import Image
from hasse.models.features.extraction import BatchFeatures, ExtractionOptions, Extractor
from hasse.models.images.preprocessing import Preprocessing
from hasse.service.cluster.connection import ClusterError, connect
from hasse.service.writing.image_source import EncodedImages, ImageSource

Result = TypeVar("Result")
Encode: TypeAlias = Callable[[list[Image]], Result]

_AHEAD = 2  # batches that wait for each worker
_NICENESS = 15  # searches on the same machine come first


class Worker:
    """A process on any machine that encodes batches of pictures."""

    def __init__(self, make: Callable[[], Encode[Any]]) -> None:
        os.nice(_NICENESS)
        self._encode = make()

    def encode(self, images: list[Image]) -> Any:
        """Encode one batch."""
        return self._encode(images)


def spread(
    address: str | None, make: Callable[[], Encode[Result]], batches: Iterable[list[Image]]
) -> Iterator[Result]:
    """Yield the encoded batches, in their order; `make` makes the encoder of a worker.

    There is a worker for each GPU that is free, or else for each processor. A batch whose worker
    is killed is given to a new one.

    Raises:
        ClusterError: nothing is free.
    """
    ray = connect(address)
    free = ray.available_resources()
    name = "GPU" if free.get("GPU", 0) >= 1 else "CPU"
    count = int(free.get(name, 0))
    if not count:
        raise ClusterError(
            "no processor of the cluster is free: add a machine with 'ray start', or stop what "
            "runs with 'hasse cluster stop'"
        )
    needs = {"num_gpus": 1} if name == "GPU" else {"num_cpus": 1}
    remote = ray.remote(Worker).options(max_restarts=-1, max_task_retries=-1, **needs)
    workers = [remote.remote(make) for _ in range(count)]
    source, waiting = enumerate(batches), deque[Any]()
    try:
        while True:
            for at, batch in islice(source, _AHEAD * count - len(waiting)):
                waiting.append(workers[at % count].encode.remote(batch))
            if not waiting:
                return
            yield ray.get(waiting.popleft())
    finally:
        for worker in workers:
            ray.kill(worker)


def _cut(images: Sequence[Image], size: int) -> Iterator[list[Image]]:
    # Captions stay here: a batch goes through the network of the cluster.
    source = (replace(image, captions=(), meaning=None) for image in images)
    while batch := list(islice(source, size)):
        yield batch


def _device() -> str:
    from hasse.service.runtime.device import pick_device

    return pick_device("auto")


def _points_encoder(checkpoint: Path, source: ImageSource) -> Encode[EncodedImages]:
    from hasse.models.checkpoints.checkpoint import load

    model = load(checkpoint, _device()).model
    return lambda images: next(source.encode_batches(model, images))


def points_of(
    address: str | None, checkpoint: Path, source: ImageSource
) -> Callable[[Sequence[Image]], Iterator[EncodedImages]]:
    """Return `ImageSource.cluster_batches` for a checkpoint that all machines have at one path."""
    alone = ImageSource(None, source.batch_size, source.workers, limits=source.limits)
    make = partial(_points_encoder, checkpoint.resolve(), alone)

    def encoded(images: Sequence[Image]) -> Iterator[EncodedImages]:
        for own, batch in _with_own(
            images, source.batch_size, lambda batches: spread(address, make, batches)
        ):
            yield replace(batch, images=[own[image.id] for image in batch.images])

    return encoded


@dataclass(frozen=True, slots=True)
class Extraction:
    """Settings of an `Extractor` on other machines; the weights lie at one path on all of them."""

    backbone: str
    weights: Path | None
    fingerprint: str  # of the weights
    preprocessing: Preprocessing
    options: ExtractionOptions

    def encoder(self) -> Encode[BatchFeatures]:
        """Return the function that encodes one batch."""
        from hasse.models.encoders.registry import build_backbone

        network = build_backbone(self.backbone, self.weights)
        if network.fingerprint() != self.fingerprint:
            raise ClusterError(
                f"{self.backbone} has other weights on {socket.gethostname()}: name one file with "
                "--weights that all machines have"
            )
        extractor = Extractor(network, self.preprocessing, replace(self.options, device=_device()))
        return lambda images: next(extractor.batches(images, len(images)))


def features_of(
    address: str | None, extraction: Extraction
) -> Callable[[Sequence[Image], int], Iterator[BatchFeatures]]:
    """Return the `batches` of `extract`, which encodes pictures on a cluster."""

    def batches(images: Sequence[Image], size: int) -> Iterator[BatchFeatures]:
        for own, batch in _with_own(
            images, size, lambda cut: spread(address, extraction.encoder, cut)
        ):
            skipped = [(own[image.id], line) for image, line in batch.skipped]
            good = [own[image.id] for image in batch.images]
            yield replace(batch, images=good, skipped=skipped)

    return batches


def _with_own(
    images: Sequence[Image],
    size: int,
    encode: Callable[[Iterable[list[Image]]], Iterator[Result]],
) -> Iterator[tuple[dict[int, Image], Result]]:
    """Yield the images of each batch by id, with their captions, and the encoded batch."""
    starts = range(0, len(images), size)
    for at, result in zip(starts, encode(_cut(images, size)), strict=True):
        yield {image.id: image for image in images[at : at + size]}, result
