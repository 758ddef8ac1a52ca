"""What does the built-in model for photographs lose to the network it learned from, and save?

    python -m benchmarks.learning.photographs data/flickr8k data/flickr8k-hasse

The second checkpoint stands for that network: `hasse train` on features of the frozen MobileNetV2,
in the way in which the built-in model was trained on those of its own. Both are measured on the
same pictures and captions (the validation split, which neither network has learned from), from the
pictures themselves, with 95 % intervals. Times are processor seconds of one
thread from a decoded picture to its point, preprocessing included, the median of rounds in which
they take turns. The first line is the teacher's network as torchvision has it; loaded to encode,
it is quicker (`Backbone.for_inference`), as the built-in model's is.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from PIL import Image

from models.checkpoints.checkpoint import (
    CALIBRATION,
    METRICS,
    VOCABULARY,
    Checkpoint,
    load,
    pretrained,
)
from models.checkpoints.model_folder import CONFIG, WEIGHTS
from models.datasets import Dataset
from models.datasets import load as load_dataset
from models.images.decoding import open_picture
from service.pipelines.dataset_encoding import ImageSource, encode_dataset
from service.pipelines.evaluation import measure

BATCH = 32
FILES = (WEIGHTS, CONFIG, VOCABULARY, CALIBRATION, METRICS)


@dataclass(frozen=True, slots=True)
class ModelRow:
    """A line of the table.

    Attributes:
        megabytes: of all files of the checkpoint.
        rsum: the six recalls added, in percent.
        low, high: its 95 % interval.
        captions, images: R@1, R@5, R@10 of captions by image, and of images by caption.
        alone: milliseconds of a picture that is encoded alone.
        together: likewise in batches of 32.
    """

    model: str
    network: str
    megabytes: float
    rsum: float
    low: float
    high: float
    captions: tuple[float, float, float]
    images: tuple[float, float, float]
    alone: float
    together: float


def seconds(checkpoint: Checkpoint, pictures: Sequence[Image.Image], batch: int) -> float:
    """Return the processor seconds that one picture takes."""
    start = time.process_time()
    checkpoint.model.encode_images(pictures, batch)
    return (time.process_time() - start) / len(pictures)


def row(checkpoint: Checkpoint, dataset: Dataset, alone: float, together: float) -> ModelRow:
    """Measure retrieval, and put all that is known of a checkpoint in a line."""
    encoded = encode_dataset(checkpoint.model, dataset, ImageSource(), lambda done, total: None)
    found = measure(checkpoint, encoded, 1, lambda done, total: None).to_json()
    low, high = found["intervals"]["rsum"]
    captions, images = (
        (found[side]["r1"], found[side]["r5"], found[side]["r10"])
        for side in ("caption_retrieval", "image_retrieval")
    )
    size = sum((checkpoint.folder / name).stat().st_size for name in FILES)
    return ModelRow(
        checkpoint.name,
        f"{checkpoint.model.config.backbone}, {checkpoint.model.preprocessing.crop} pixels",
        size / 1e6,
        found["rsum"],
        low,
        high,
        captions,
        images,
        1000 * alone,
        1000 * together,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("dataset", type=Path, help="made by 'hasse data import flickr8k'")
    parser.add_argument("teacher", type=Path, help="a checkpoint on the teacher's features")
    parser.add_argument("--model", type=Path, default=None, help="instead of the built-in one")
    parser.add_argument("--split", default="val")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", action="store_true", help="print JSON instead")
    options = parser.parse_args(arguments)

    torch.set_num_threads(1)
    dataset = load_dataset(options.dataset).split(options.split)
    checkpoints = [load(options.teacher), load(options.model or pretrained("photographs"))]
    timed = [*checkpoints, load(options.teacher, to_learn=True)]
    pictures = [open_picture(image.path) for image in dataset.images[:BATCH]]
    times: dict[tuple[int, int], list[float]] = {}
    for round_ in range(options.rounds + 1):
        for at, checkpoint in enumerate(timed):
            for batch in (1, BATCH):
                taken = seconds(checkpoint, pictures, batch)
                if round_:  # the first is for warming up
                    times.setdefault((at, batch), []).append(taken)
    rows = [
        row(
            checkpoint,
            dataset,
            statistics.median(times[at, 1]),
            statistics.median(times[at, BATCH]),
        )
        for at, checkpoint in enumerate(checkpoints)
    ]
    teacher, student = rows
    plain = {
        "alone": 1000 * statistics.median(times[2, 1]),
        "together": 1000 * statistics.median(times[2, BATCH]),
    }
    ratios = {
        "rsum": student.rsum / teacher.rsum,
        "alone": student.alone / teacher.alone,
        "together": student.together / teacher.together,
        "alone_of_plain": student.alone / plain["alone"],
        "together_of_plain": student.together / plain["together"],
    }
    if options.json:
        found = {"rows": [asdict(one) for one in rows], "plain": plain, "ratios": ratios}
        print(json.dumps(found, indent=2))
        return
    print(
        f"{len(dataset):,} pictures of '{dataset.name}', split {options.split}; "
        f"{platform.machine()}, {os.cpu_count()} cores, one thread, torch {torch.__version__}"
    )
    print()
    print(
        "| model | network | MB | rsum (95 %) | captions R@1 / 5 / 10 | images R@1 / 5 / 10 "
        "| ms a picture, alone | in batches of 32 |"
    )
    print("|---" * 8 + "|")
    print(
        f"| {teacher.model} | as torchvision has it | | | | | {plain['alone']:.1f} "
        f"| {plain['together']:.1f} |"
    )
    for one in rows:
        recalls = [" / ".join(f"{r:.1f}" for r in side) for side in (one.captions, one.images)]
        print(
            f"| {one.model} | {one.network} | {one.megabytes:.1f} | {one.rsum:.1f} "
            f"({one.low:.1f} to {one.high:.1f}) | {recalls[0]} | {recalls[1]} "
            f"| {one.alone:.1f} | {one.together:.1f} |"
        )
    print(
        f"| third beside first | | | | | | {ratios['alone_of_plain']:.0%} "
        f"| {ratios['together_of_plain']:.0%} |"
    )
    print(
        f"| third beside second | | | {ratios['rsum']:.0%} | | | {ratios['alone']:.0%} "
        f"| {ratios['together']:.0%} |"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
