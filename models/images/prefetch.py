"""Pictures decoded by threads, a little ahead of a network that works through them."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from models.datasets import Image
from models.images.preprocessing import Preprocessing, open_picture

Decoded = tuple[Image, Future[Tensor]]

BATCHES_AHEAD = 2  # decoded while the network works on one


def decoded(
    images: Iterable[Image],
    preprocessing: Preprocessing,
    size: int,
    workers: int | None,
    views: int = 0,
) -> Iterator[list[Decoded]]:
    """Yield images in batches, each with a promise of its pixels (crops + views, 3, H, W).

    A promise raises `PictureError` for a picture that cannot be read. Only a few batches exist at
    a time. `workers` is the number of threads; None takes one a core. `views` random cuts follow
    the crops; an image always has the same ones.
    """

    def decode(image: Image) -> Tensor:
        if not views:
            return preprocessing.apply(open_picture(image.path, at_least=preprocessing.resize))
        # A cut has 0.6 of a side or a little less.
        picture = open_picture(image.path, at_least=2 * preprocessing.resize)
        crops = preprocessing.apply(picture)
        draw = np.random.default_rng(image.id % 2**63)
        cuts = [preprocessing.vary(picture, draw)[None] for _ in range(views)]
        return torch.cat([crops, *cuts])

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
