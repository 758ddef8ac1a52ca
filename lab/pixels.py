"""Pictures in bytes as the input of a network, on any device."""

from __future__ import annotations

from torch import Tensor

from hasse.models.images.preprocessing import IMAGENET_MEAN, IMAGENET_STD


def normalise_pixels(
    pixels: Tensor,
    mean: tuple[float, float, float] = IMAGENET_MEAN,
    std: tuple[float, float, float] = IMAGENET_STD,
) -> Tensor:
    """Return 8-bit pictures as a network's input: (B, H, W, 3) -> (B, 3, H, W) float32.

    The memory layout stays channels-last, which is the fastest for convolutions on a CPU.
    """
    batch = pixels.permute(0, 3, 1, 2).float()
    shift, scale = (batch.new_tensor(v).view(3, 1, 1) for v in (mean, std))
    return batch.div_(255).sub_(shift).div_(scale)
