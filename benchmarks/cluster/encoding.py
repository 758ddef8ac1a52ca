"""Encode pictures on a cluster of one and of two workers: the same bits, and how much sooner.

    python -m benchmarks.cluster.encoding DATASET --model MODEL --pictures 1000

DATASET is a folder that `hasse lab data import` wrote. All workers are on this machine, on nodes of
one processor each.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.cluster.nodes import Nodes
from benchmarks.report import Line, finish, machine, parser_of
from hasse.lab.pipelines.cluster_encoding import points_of
from hasse.models.checkpoints import checkpoint
from hasse.models.datasets import Image, load
from hasse.models.embedding_model import Points
from hasse.service.cluster.connection import connect
from hasse.service.writing.image_source import EncodedImages, ImageSource


def main() -> None:
    """Encode the same pictures in each way, and print the table."""
    parser = parser_of(__doc__)
    parser.add_argument("dataset", type=Path)
    parser.add_argument("--model", type=Path, required=True, help="a checkpoint")
    parser.add_argument("--pictures", type=int, default=1000)
    asked, at = parser.parse_args(), machine()
    images = load(asked.dataset).images[: asked.pictures]
    source = ImageSource()
    alone = source.encode_batches(checkpoint.load(asked.model).model, images)
    truth, _, first = encoded(alone, images)
    lines, rates = [Line("one process, without a cluster", f"{first:.1f} pictures a second")], []
    with Nodes(0, head_cpus=1) as nodes:
        os.environ |= nodes.environment
        ray = connect(nodes.address)
        for count in (1, 2):
            if count > 1:
                nodes.add(1)
            points, start, rate = encoded(points_of(None, asked.model, source)(images), images)
            rates.append(rate)
            same = np.array_equal(points, truth)
            said = f"{rate:.1f} pictures a second, the first after {start:.1f} s; "
            said += "the same bits" if same else "OTHER BITS"
            lines.append(Line(f"on a cluster of {count}", said, "the same bits", same))
        ray.shutdown()
    lines.append(Line("2 workers beside 1", f"{rates[-1] / rates[0]:.2f} times"))
    finish(f"{len(images):,} pictures encoded by {asked.model.name}", lines, at)


def encoded(
    batches: Iterator[EncodedImages], images: Sequence[Image]
) -> tuple[Points, float, float]:
    """Return all points (R, N), seconds to the first batch, and pictures a second after that."""
    started = time.perf_counter()
    first = next(batches).points
    began = time.perf_counter()
    rest = [batch.points for batch in batches]
    rate = (len(images) - len(first)) / (time.perf_counter() - began)
    return np.concatenate([first, *rest]), began - started, rate


if __name__ == "__main__":
    main()
