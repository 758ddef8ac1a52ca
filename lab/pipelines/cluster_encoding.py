"""Encodes pictures on all processors or GPUs of a cluster, with the same bits in the same order."""

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

from hasse.lab.features.extraction import BatchFeatures, ExtractionOptions, Extractor
from hasse.models.datasets import Image
from hasse.models.images.preprocessing import Preprocessing
from hasse.service.cluster.connection import ClusterError, connect
from hasse.service.writing.image_source import EncodedImages, ImageSource

Result = TypeVar("Result")
Encode: TypeAlias = Callable[[list[Image]], Result]

_AHEAD = 2  # queued batches for each worker
_NICENESS = 15  # less important than searches on the same machine


class EncodingWorker:
    """A process on any machine that encodes batches of pictures."""

    def __init__(self, make: Callable[[], Encode[Any]]) -> None:
        os.nice(_NICENESS)
        self._encode = make()

    def encode(self, images: list[Image]) -> Any:
        """Encode one batch."""
        return self._encode(images)


def encode_on_cluster(
    address: str | None, make: Callable[[], Encode[Result]], batches: Iterable[list[Image]]
) -> Iterator[Result]:
    """Yield the encoded batches, in order; `make` makes the encoder of a worker.

    There is a worker for each free GPU, or else for each free processor. If a worker is killed, a
    new one encodes its batch.

    Raises:
        ClusterError: no processor is free.
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
    resources = {"num_gpus": 1} if name == "GPU" else {"num_cpus": 1}
    remote = ray.remote(EncodingWorker).options(max_restarts=-1, max_task_retries=-1, **resources)
    workers = [remote.remote(make) for _ in range(count)]
    numbered, queue = enumerate(batches), deque[Any]()
    try:
        while True:
            for at, batch in islice(numbered, _AHEAD * count - len(queue)):
                queue.append(workers[at % count].encode.remote(batch))
            if not queue:
                return
            yield ray.get(queue.popleft())
    finally:
        for worker in workers:
            ray.kill(worker)


def _batches(images: Sequence[Image], size: int) -> Iterator[list[Image]]:
    # Without captions, because a batch goes through the network of the cluster.
    bare_images = (replace(image, captions=(), meaning=None) for image in images)
    while batch := list(islice(bare_images, size)):
        yield batch


def _device() -> str:
    from hasse.service.core.device import pick_device

    return pick_device("auto")


def _points_encoder(checkpoint: Path, source: ImageSource) -> Encode[EncodedImages]:
    from hasse.lab.checkpoints.learned_model import load

    model = load(checkpoint, _device()).model
    return lambda images: next(source.encode_batches(model, images))


def points_of(
    address: str | None, checkpoint: Path, source: ImageSource
) -> Callable[[Sequence[Image]], Iterator[EncodedImages]]:
    """Return `ImageSource.cluster_batches` for a checkpoint that all machines have at one path."""
    worker_source = ImageSource(source.batch_size, source.workers, limits=source.limits)
    make = partial(_points_encoder, checkpoint.resolve(), worker_source)

    def encode(images: Sequence[Image]) -> Iterator[EncodedImages]:
        for by_id, batch in _with_captions(
            images, source.batch_size, lambda batches: encode_on_cluster(address, make, batches)
        ):
            yield replace(batch, images=[by_id[image.id] for image in batch.images])

    return encode


@dataclass(frozen=True, slots=True)
class Extraction:
    """Settings of an `Extractor` on other machines, which all have the weights at the same path."""

    backbone: str
    weights: Path | None
    fingerprint: str  # of the weights
    preprocessing: Preprocessing
    options: ExtractionOptions

    def encoder(self) -> Encode[BatchFeatures]:
        """Return the function that encodes one batch."""
        from hasse.lab.encoders.registry import build_backbone

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
        for by_id, batch in _with_captions(
            images, size, lambda cut: encode_on_cluster(address, extraction.encoder, cut)
        ):
            skipped = [(by_id[image.id], line) for image, line in batch.skipped]
            encoded = [by_id[image.id] for image in batch.images]
            yield replace(batch, images=encoded, skipped=skipped)

    return batches


def _with_captions(
    images: Sequence[Image],
    size: int,
    encode: Callable[[Iterable[list[Image]]], Iterator[Result]],
) -> Iterator[tuple[dict[int, Image], Result]]:
    """Yield the images of each batch by id, with their captions, and the encoded batch."""
    starts = range(0, len(images), size)
    for at, result in zip(starts, encode(_batches(images, size)), strict=True):
        yield {image.id: image for image in images[at : at + size]}, result
