"""Decode pictures in threads, a few batches ahead of the network."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from hasse.models.datasets import Image
from hasse.models.images.decoding import open_picture
from hasse.models.images.limits import DEFAULT_LIMITS, PictureLimits
from hasse.models.images.preprocessing import Preprocessing

Decoded = tuple[Image, Future[Tensor]]

BATCHES_AHEAD = 2  # decoded while the network works on one


def decode_ahead(
    images: Iterable[Image],
    preprocessing: Preprocessing,
    size: int,
    workers: int | None,
    views: int = 0,
    limits: PictureLimits = DEFAULT_LIMITS,
) -> Iterator[list[Decoded]]:
    """Yield images in batches of `size`, each with a future of its pixels (crops + views, 3, H, W).

    A future raises `PictureError` for a picture that cannot be decoded. Only a few batches exist at
    a time. `workers` is the number of threads; None: one a core. `views` random
    crops follow; an image always has the same ones.
    """

    def decode(image: Image) -> Tensor:
        if not views:
            return preprocessing.apply(open_picture(image.path, limits, preprocessing.resize))
        # A view has about 0.6 of a side, and is scaled up to `crop`.
        picture = open_picture(image.path, limits, 2 * preprocessing.resize)
        crops = preprocessing.apply(picture)
        draw = np.random.default_rng(image.id % 2**63)
        random_views = [preprocessing.random_view(picture, draw)[None] for _ in range(views)]
        return torch.cat([crops, *random_views])

    source = iter(images)
    waiting: deque[list[Decoded]] = deque()
    pool = ThreadPoolExecutor(workers or os.cpu_count(), thread_name_prefix="decode")
    try:
        while True:
            while len(waiting) <= BATCHES_AHEAD and (batch := list(islice(source, size))):
                waiting.append([(image, pool.submit(decode, image)) for image in batch])
            if not waiting:
                return
            yield waiting.popleft()
    finally:
        # Reached early on Ctrl-C, when what is still waiting is no longer wanted.
        pool.shutdown(cancel_futures=True)
