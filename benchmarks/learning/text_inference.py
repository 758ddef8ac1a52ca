"""How fast are captions read on a CPU, and what keeps them from being read faster?

    python -m benchmarks.learning.text_inference

`TextInference` beside `torch.nn.GRU` with the same weights and words, on packed sequences, as other
models read captions: of the built-in model's size, and of the paper's with float32 and with
float16 weights. Captions are the built-in scenes', 8.5 words and an end mark in the mean, numbered
beforehand. Times are of one thread, the median of rounds in which the contenders take turns. A
step reads the recurrent weights once for all captions, and does two operations with each weight
for each caption: alone a caption waits for the memory, among many for the processor.

A second table is of what lengths that even out hubs (`models.encoders.hubness`) take beside that,
by the hubness correction of the recipe `hasse`; alone a point waits for the references to be read.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize
from torch.nn.utils.rnn import pack_padded_sequence

from benchmarks.learning.training import torch_gru
from benchmarks.reliability import collection
from benchmarks.report import parser_of, table
from hasse.lab.checkpoints import learned_model
from hasse.lab.checkpoints.learned_model import order_embedding_of
from hasse.lab.encoders.hubness_weights import HubnessWeights
from hasse.lab.encoders.text_encoder import CaptionEncoder, pad_captions
from hasse.lab.training.recipe import Recipe, find
from hasse.models.checkpoints import named_models
from hasse.models.encoders.text_inference import TextInference
from hasse.models.kernels.cpu_gru import pack

BATCHES = (1, 8, 32, 256)
SCENES = 500


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table: microseconds a caption, and billions a second of what ours does.

    Attributes:
        read: bytes of weights.
        done: operations of the recurrence.
    """

    name: str
    batch: int
    plain: float
    ours: float
    read: float
    done: float


def contenders(encoder: CaptionEncoder) -> dict[str, Callable[[list[list[int]]], object]]:
    """Return what reads numbered captions: each takes them to their last states, or points."""
    reader, theirs = TextInference([encoder.packed_encoder()]), torch_gru(encoder.gru)

    def read(captions: list[list[int]]) -> object:
        numbers, lengths = pad_captions([torch.tensor(caption) for caption in captions])
        with torch.inference_mode():
            ragged = pack_padded_sequence(
                encoder.embedding(numbers), lengths, batch_first=True, enforce_sorted=False
            )
            return theirs(ragged)[1]

    return {"plain": read, "ours": reader.points}


def measure(
    name: str, encoder: CaptionEncoder, captions: Sequence[list[int]], rounds: int
) -> list[Row]:
    """Return the lines of one encoder."""
    ways = contenders(encoder)
    weight = encoder.gru.recurrent_weight.detach()
    size = pack(weight.numpy()).itemsize * weight.numel()
    draw = random.Random(0)
    rows = []
    for batch in BATCHES:
        times: dict[str, list[float]] = {"plain": [], "ours": []}
        read, done = [], []
        for _ in range(rounds + 1):
            chosen = draw.sample(captions, batch)
            for way, work in ways.items():
                start = time.perf_counter()
                work(chosen)
                times[way].append(time.perf_counter() - start)
            read.append(1e-9 * size * max(map(len, chosen)) / times["ours"][-1])
            done.append(2e-9 * weight.numel() * sum(map(len, chosen)) / times["ours"][-1])
        # The first round compiles.
        each = (1e6 * statistics.median(times[way][1:]) / batch for way in ("plain", "ours"))
        rows.append(Row(name, batch, *each, *(statistics.median(of[1:]) for of in (read, done))))
    return rows


def evening(rounds: int) -> list[tuple[int, float, float]]:
    """Return batch sizes, with microseconds a caption and an image to even out their lengths."""
    config = Recipe.read(find("hasse")).config.model
    draw = torch.Generator().manual_seed(0)

    def points(count: int) -> Tensor:
        return normalize(torch.rand(count, config.dimension, generator=draw) ** 3, dim=1)

    weights = HubnessWeights(config.hubness, config.dimension, "order")
    weights.fit(points(config.hubness + 100), points(config.hubness + 100), 30.0)
    correction = weights.correction()
    assert correction is not None
    rows = []
    for batch in BATCHES:
        each = []
        for kind in ("caption", "image"):
            times = []
            for _ in range(rounds + 1):
                chosen = points(batch).numpy()
                start = time.perf_counter()
                correction.correct(chosen, kind)
                times.append(time.perf_counter() - start)
            each.append(1e6 * statistics.median(times[1:]) / batch)
        rows.append((batch, each[0], each[1]))
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = parser_of(__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    built_in = order_embedding_of(learned_model.load(named_models.pretrained()))
    assert isinstance(built_in.captions, CaptionEncoder)
    numbered = [
        built_in.vocabulary.encode(text, built_in.config.max_words)
        for text in collection.captions(SCENES)
    ]
    torch.manual_seed(0)
    paper = CaptionEncoder(len(built_in.vocabulary), 300, 1024)
    rows = measure("scenes, N = 512, float16", built_in.captions, numbered, options.rounds)
    rows += measure("paper's, N = 1024, float32", paper, numbered, options.rounds)
    with torch.no_grad():
        paper.gru.recurrent_weight.copy_(paper.gru.recurrent_weight.half().float())
    rows += measure("paper's, N = 1024, float16", paper, numbered, options.rounds)
    print("microseconds a caption, one thread; weights and operations of ours\n")
    print(
        table(
            ("encoder", "batch", "torch.nn.GRU", "ours", "faster", "GB/s", "G operations/s"),
            [
                (
                    row.name,
                    str(row.batch),
                    *(f"{each:,.0f}" for each in (row.plain, row.ours)),
                    f"{row.plain / row.ours:.1f} x",
                    *(f"{each:.0f}" for each in (row.read, row.done)),
                )
                for row in rows
            ],
        )
    )
    shape = Recipe.read(find("hasse")).config.model
    size = 4e-9 * shape.hubness * shape.dimension  # in gigabytes
    print(f"\nmicroseconds more for its length, with hubness correction by {shape.hubness:,}\n")
    evened = [
        (str(batch), f"{caption:,.0f}", f"{image:,.0f}", f"{1e6 * size / caption / batch:.0f}")
        for batch, caption, image in evening(options.rounds)
    ]
    print(table(("batch", "a caption", "an image", "GB/s, captions"), evened))


if __name__ == "__main__":
    main(sys.argv[1:])
