"""What quick encoders cost retrieval: a captioned dataset encoded by each, and mixed.

    python -m benchmarks.learning.runtimes data/flickr8k --split val

Mixed is each picture by one of them at random, as in a library that several machines add to. The
overlap is of the ten nearest images of each caption with those of torch, in float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from time import process_time

import numpy as np
from numpy.typing import NDArray

from benchmarks.report import machine, parser_of, table
from hasse.lab.checkpoints import learned_model
from hasse.lab.evaluation.retrieval import evaluate
from hasse.models.checkpoints import checkpoint, named_models
from hasse.models.datasets import load as load_dataset
from hasse.models.embedding_model import EmbeddingModel, Points
from hasse.models.images.decoding import open_picture
from hasse.models.networks.network import Runtime
from hasse.models.score import penalties_between

BATCH, NEAREST = 32, 10
RUNTIMES: tuple[Runtime, ...] = ("onnxruntime", "openvino")
NAMES = ("torch", *RUNTIMES)


def encode(
    models: Sequence[EmbeddingModel], pictures: Sequence[Path]
) -> tuple[list[Points], list[float]]:
    """Return the points of pictures by each model, and its processor milliseconds a picture."""
    looks, seconds = models[0].preprocessing, [0.0] * len(models)
    found: list[list[Points]] = [[] for _ in models]
    for start in range(0, len(pictures), BATCH):
        opened = [open_picture(path, at_least=looks.resize) for path in pictures[start:][:BATCH]]
        pixels = [looks.apply(picture) for picture in opened]
        for at, model in enumerate(models):
            began = process_time()
            found[at].append(model.encode_pixels(pixels))
            seconds[at] += process_time() - began
    milliseconds = [1000 * each / len(pictures) for each in seconds]
    return [np.concatenate(each) for each in found], milliseconds


def nearest(images: Points, captions: Points, model: EmbeddingModel) -> NDArray[np.int64]:
    """Return the rows of the nearest images of each caption: (NEAREST, C)."""
    penalty = penalties_between(model.config.score, images, captions)
    return np.argsort(penalty, axis=0, kind="stable")[:NEAREST]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = parser_of(__doc__)
    parser.add_argument("dataset", type=Path, help="made by 'hasse lab data import'")
    parser.add_argument("--split", default="val")
    parser.add_argument("--model", default="photographs")
    options = parser.parse_args(arguments)
    part = load_dataset(options.dataset).split(options.split)
    folder = named_models.find(Path(options.model))
    models = [learned_model.load(folder).model]
    models += [checkpoint.load(folder, runtime=runtime).model for runtime in RUNTIMES]
    texts = [caption.text for caption in part.captions]
    captions = models[0].encode_captions(texts)
    images, milliseconds = encode(models, [image.path for image in part.images])
    any_of = np.random.default_rng(0).integers(0, len(NAMES), (len(part.images), 1))
    expected, rows = nearest(images[0], captions, models[0]), []
    mixed, times = np.choose(any_of, images), [*map("{:.1f}".format, milliseconds), ""]
    for name, points, each in zip((*NAMES, "mixed"), (*images, mixed), times, strict=True):
        measured = evaluate(part, points, captions, models[0].config.score)
        there = nearest(points, captions, models[0])
        shared = [np.intersect1d(*pair).size for pair in zip(expected.T, there.T, strict=True)]
        rows.append(
            (
                name,
                each,
                f"{measured.rsum:.1f}",
                f"{measured.caption_retrieval.r1:.1f}",
                f"{measured.image_retrieval.r1:.1f}",
                f"{np.mean(shared):.2f}",
            )
        )
    print(f"{len(part.images):,} images, {len(texts):,} captions, {machine()}\n")
    heads = ("encoded in", "processor ms", "rsum", "captions R@1", "images R@1", "of 10 nearest")
    print(table(heads, rows))


if __name__ == "__main__":
    main()
