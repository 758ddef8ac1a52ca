"""How many pictures a second encoders see: decoded, scaled and through the network.

    python -m benchmarks.learning.encoders data/flickr8k timm/tf_efficientnet_lite2 ...

Weights are random where pip brings none, which takes as long. Each encoder is as a model keeps it
for searches. Processor time is of all threads; on a busy machine it tells more than the clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from benchmarks.report import machine, parser_of, table
from hasse.lab.encoders.registry import build_backbone
from hasse.models.datasets import Image
from hasse.models.datasets import load as load_dataset
from hasse.models.images.decoding import open_picture
from hasse.models.images.preprocessing import Pixels, Preprocessing
from hasse.service.writing.prefetch import decode_ahead

BATCH = 32


def speed(
    encode: Callable[[Tensor], Tensor], preprocessing: Preprocessing, images: Sequence[Image]
) -> tuple[float, float]:
    """Return pictures a second by the clock, and processor seconds a picture.

    The first batch is for warming up.
    """

    def decoded(image: Image) -> Pixels:
        return preprocessing.apply(open_picture(image.path, at_least=preprocessing.resize))

    done, began = 0, (0.0, 0.0)
    with torch.inference_mode():
        for batch in decode_ahead(images, decoded, BATCH, None):
            encode(torch.from_numpy(np.stack(batch.results)))
            if any(began):
                done += len(batch.items)
            else:
                began = time.perf_counter(), time.process_time()
    return done / (time.perf_counter() - began[0]), (time.process_time() - began[1]) / max(1, done)


def main() -> None:
    """Print the table."""
    parser = parser_of(__doc__)
    parser.add_argument("dataset", type=Path, help="made by 'hasse lab data import'")
    parser.add_argument("encoders", nargs="+", help="names as of 'hasse lab features --backbone'")
    parser.add_argument("--pictures", type=int, default=500)
    options = parser.parse_args()
    images = load_dataset(options.dataset).images[: options.pictures + BATCH]
    print(f"{options.pictures} pictures, {machine()}, {torch.get_num_threads()} threads\n")
    rows = []
    for name in options.encoders:
        network = build_backbone(name).freeze().for_inference()
        looks = network.preprocessing

        def encode(pixels: Tensor, seen: Callable[[Tensor], Tensor] = network) -> Tensor:
            return seen(pixels.flatten(0, 1))

        each, seconds = speed(encode, looks, images)
        rows.append((f"`{name}`", str(looks.crop), f"{each:.1f}", f"{1000 * seconds:.0f}"))
    print(table(("encoder", "pixels", "pictures a second", "processor ms a picture"), rows))


if __name__ == "__main__":
    main()
