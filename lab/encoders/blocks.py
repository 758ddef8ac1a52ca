"""Encodes arrays by torch, block by block."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hasse.models.embedding_model import EmbeddingModel, Points, on_processor
from hasse.models.images.preprocessing import Pixels

# Pictures in a batch of a network on a processor. Activations of 32 pictures are too large for the
# allocator's cache, and allocating memory from the system takes a third of the time.
PIXEL_BATCH = 4


def encode_padded(encode: Callable[[Tensor], Tensor], features: Tensor) -> Tensor:
    """Encode features in batches that are never small: (B, ...) -> (B, N).

    Matrix products with few rows round differently, so `encode` gets at least PIXEL_BATCH rows,
    filled up with zeros: the bits of a point do not depend on the batch.
    """
    padded = features.new_zeros(max(PIXEL_BATCH, len(features)), *features.shape[1:])
    padded[: len(features)] = features
    return encode(padded)[: len(features)]


def encode_pixel_blocks(
    model: EmbeddingModel, encode: Callable[[Tensor], Tensor], pixels: Sequence[Pixels]
) -> Points:
    """Encode preprocessed pictures in batches of the fastest size for the device."""
    return encode_blocks(model, encode, pixels, PIXEL_BATCH if on_processor(model) else len(pixels))


def encode_blocks(
    model: EmbeddingModel,
    encode: Callable[[Tensor], Tensor],
    items: NDArray[np.floating] | Sequence[Pixels],
    batch_size: int,
) -> NDArray[np.float32]:
    """Encode arrays of one shape, block by block: (B, ...) float32."""
    if not len(items):
        return np.empty((0, model.config.dimension), np.float32)
    encoded = []
    with torch.inference_mode():
        for start in range(0, len(items), batch_size):
            block = np.asarray(items[start : start + batch_size], np.float32)
            encoded.append(encode(torch.from_numpy(block).to(str(model.device))).cpu().numpy())
    return np.concatenate(encoded)
