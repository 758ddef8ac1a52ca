"""How fast is an epoch, beside the plain PyTorch way of doing the same?

    python -m benchmarks.learning.training [--steps 8] [--threads 1] [--device cpu]

The plain way is that of the VSE family: `torch.nn.GRU` over padded batches, the last state
gathered, the cube of differences broadcast, clamped, squared and summed, the hinge as a matrix,
autograd for all of it. Ours is `hasse lab train` itself, by the recipe `order`, in float32 and, on
a device that has them, with products in bfloat16. All start from the same weights and see the same
batches, and the run fails unless the losses of a round's first steps agree. They take turns, so
that all meet the same load, and the median step is what counts.

Captions are made up: lengths as in Flickr8k (11 words on average), words by Zipf's law, features
that depend on the words. Seconds are of the clock and of the processor; with one thread, the
second says what an idle machine would take. The share of the peak is that of the matrix products'
arithmetic in the fastest square product of their type, measured in the same run.
"""

from __future__ import annotations

import platform
import statistics
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import normalize

from benchmarks.report import parser_of, table
from benchmarks.search.clock import wait
from hasse.lab.encoders.gru import GRU
from hasse.lab.encoders.mixed_precision import supports_bfloat16
from hasse.lab.encoders.order_embedding import OrderEmbedding
from hasse.lab.encoders.text_encoder import CaptionEncoder, pad_captions
from hasse.lab.training.config import TrainingConfig
from hasse.lab.training.distributed import World
from hasse.lab.training.inputs import FeatureInput, TrainingInputs
from hasse.lab.training.lesson import Measurement
from hasse.lab.training.recipe import Recipe, find
from hasse.lab.training.run import Progress, TrainingStopped
from hasse.lab.training.trainer import RetrievalTraining
from hasse.models.datasets import Caption, Dataset, Image
from hasse.models.vocabulary import PADDING, Vocabulary

WORDS, FEATURES, BACKBONE = 8000, 1280, "torchvision/mobilenet_v2"
EPOCH = 30_000  # captions; Flickr8k has as many to train on
Precision = Literal["float32", "bfloat16"]
# Losses are compared in the first steps of a round only: what was rounded in one step is multiplied
# in all that follow.
AGREED = 8
# There they may differ by this share: float32 by the order of sums, bfloat16 by rounding.
TOLERANCE: dict[Precision, float] = {"float32": 1e-3, "bfloat16": 2e-2}

Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class MadeUpData:
    """A dataset of one caption to an image, and features of the images."""

    dataset: Dataset
    features: NDArray[np.float32]


@dataclass(slots=True)
class Steps:
    """What was seen of a contender: per step the loss, and seconds by two clocks."""

    losses: list[float] = field(default_factory=list)
    clock: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)


class Watched(FeatureInput):
    """Features that remember which rows were asked for in training."""

    seen: list[Rows]

    def read(self, rows: Rows, augment: np.random.Generator | None = None) -> Tensor:
        """Note the rows and take their features."""
        if augment is not None:
            self.seen.append(rows)
        return FeatureInput.read(self, rows, augment)


def torch_gru(ours: GRU) -> nn.GRU:
    """Return torch's own network with the weights of ours."""
    states, inputs = ours.recurrent_weight.shape[1], ours.input_weight.shape[1]
    theirs = nn.GRU(inputs, states, batch_first=True)
    theirs.load_state_dict(
        {
            "weight_ih_l0": ours.input_weight,
            "weight_hh_l0": ours.recurrent_weight,
            "bias_ih_l0": ours.input_bias,
            "bias_hh_l0": ours.recurrent_bias,
        }
    )
    return theirs


class Plain(nn.Module):
    """The two encoders as the VSE family writes them, with the weights of one of ours."""

    def __init__(self, model: OrderEmbedding) -> None:
        super().__init__()
        ours = model.captions
        assert isinstance(ours, CaptionEncoder)
        words, width = ours.embedding.weight.shape
        self.embedding = nn.Embedding(words, width, padding_idx=PADDING)
        self.embedding.load_state_dict(ours.embedding.state_dict())
        self.gru = torch_gru(ours.gru)
        self.projection = nn.Linear(model.images.projection.in_features, model.config.dimension)
        self.projection.load_state_dict(model.images.projection.state_dict())

    def forward(self, features: Tensor, tokens: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Return image and caption points: (B, F), (B, T), (B,) -> (B, N), (B, N)."""
        states, _ = self.gru(self.embedding(tokens))  # (B, T, N)
        last = states[torch.arange(len(tokens)), lengths - 1]
        image = self.projection(normalize(features, dim=-1))
        return normalize(image, dim=-1).abs(), normalize(last, dim=-1).abs()


def plain_violation(images: Tensor, captions: Tensor) -> Tensor:
    """Return all violations by broadcasting: (B, N), (C, N) -> (B, C)."""
    return (captions[None] - images[:, None]).clamp(min=0).pow(2).sum(2)


def plain_loss(penalty: Tensor, margin: float) -> Tensor:
    """Sum the hinge over all contrastive pairs: (B, B) -> scalar."""
    true = penalty.diag()
    others = 1 - torch.eye(len(penalty), device=penalty.device)
    by_image = (margin + true[:, None] - penalty).clamp(min=0) * others
    by_caption = (margin + true[None] - penalty).clamp(min=0) * others
    return by_image.sum() + by_caption.sum()


def make(captions: int) -> MadeUpData:
    """Make up captions and the features of their images."""
    draw = np.random.default_rng(0)
    share = 1 / np.arange(1, WORDS + 1)
    lengths = np.clip(draw.normal(11, 3.5, captions).round(), 3, 30).astype(int)
    meaning = draw.standard_normal((WORDS, FEATURES), dtype=np.float32)
    features = draw.standard_normal((captions, FEATURES), dtype=np.float32)
    images = []
    for row, length in enumerate(lengths):
        chosen = draw.choice(WORDS, length, p=share / share.sum())
        features[row] += meaning[chosen].mean(0) * 3
        text = " ".join(f"w{word}" for word in chosen)
        name = f"{row}.jpg"
        images.append(Image(row, name, Path(name), captions=(Caption(row, row, text),)))
    return MadeUpData(Dataset("made up", tuple(images)), np.maximum(features, 0))


def config_of(precision: Precision) -> TrainingConfig:
    """Return the recipe `order` on the features of this benchmark."""
    paper = Recipe.read(find("order")).config
    return replace(paper, model=replace(paper.model, backbone=BACKBONE), precision=precision)


def ours(
    data: MadeUpData, precision: Precision, steps: int, device: str
) -> tuple[Steps, list[Rows]]:
    """Train for some steps; return what was seen and the rows of each batch."""
    images = Watched(np.arange(len(data.dataset)), data.features)
    object.__setattr__(images, "seen", [])
    found = Steps()
    began: list[tuple[float, float]] = []

    def stop() -> bool:
        wait(device)
        began.append((time.perf_counter(), time.process_time()))
        return len(began) > steps

    def report(progress: Progress[Measurement]) -> None:
        found.losses.append(progress.loss * progress.step - sum(found.losses))

    both = (data.dataset, images)
    with tempfile.TemporaryDirectory() as folder, suppress(TrainingStopped):
        RetrievalTraining(
            config_of(precision), Path(folder), TrainingInputs(both, both), world=World(device)
        ).train(report, stop)
    found.clock, found.processor = np.diff(began, axis=0).T.tolist()
    # One batch more was read than learned from: the next is prepared while a step is under way.
    return found, images.seen[: len(found.losses)]


def plain(data: MadeUpData, batches: list[Rows], device: str) -> Steps:
    """Train on the same batches from the same weights, the plain way."""
    config = config_of("float32")
    texts = [caption.text for caption in data.dataset.captions]
    vocabulary = Vocabulary.build(texts, config.min_word_count)
    # Once for all epochs, as ours does: a step has but to pad.
    numbered = [torch.tensor(vocabulary.encode(text, config.model.max_words)) for text in texts]
    torch.manual_seed(config.seed)
    model = OrderEmbedding(config.model, vocabulary, config.preprocessing)
    network = Plain(model).to(device)
    weights = list(network.parameters())
    optimizer = torch.optim.Adam(weights, config.learning_rate)
    found = Steps()
    for rows in batches:
        wait(device)
        clock, processor = time.perf_counter(), time.process_time()
        words = [numbered[row] for row in rows]
        tokens, lengths = pad_captions(words)
        features = torch.from_numpy(data.features[rows]).to(device)
        points = network(features, tokens.to(device), lengths.to(device))
        loss = plain_loss(plain_violation(*points), config.margin)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        for weight in weights:
            torch.nn.utils.clip_grad_norm_(weight, config.clip_norm)
        optimizer.step()
        found.losses.append(float(loss.detach()) / len(rows))
        wait(device)
        found.clock.append(time.perf_counter() - clock)
        found.processor.append(time.process_time() - processor)
    return found


def products(data: MadeUpData, batches: list[Rows]) -> float:
    """Count the operations in the matrix products of an average step, padding left out."""
    model = config_of("float32").model
    captions = [caption.text for caption in data.dataset.captions]
    words = np.mean([sum(len(captions[row].split()) + 1 for row in rows) for rows in batches])
    gates = words * 3 * model.dimension * (model.word_dimension + model.dimension)
    image = len(batches[0]) * FEATURES * model.dimension
    # Forward, then the gradients of input and weight; features need no gradient.
    return float(2 * (3 * gates + 2 * image))


def peak(dtype: torch.dtype, device: str) -> float:
    """Return the operations a second of the best of some square products.

    On a GPU large ones, which fill it.
    """
    size = 2048 if device == "cpu" else 8192
    a = torch.randn(size, size, device=device).to(dtype)
    best = float("inf")
    for _ in range(6):
        wait(device)
        start = time.process_time() if device == "cpu" else time.perf_counter()
        a @ a
        wait(device)
        now = time.process_time() if device == "cpu" else time.perf_counter()
        best = min(best, now - start)
    return 2 * size**3 / best * (1 if device != "cpu" else torch.get_num_threads())


def main() -> None:
    """Print the table."""
    parser = parser_of(__doc__)
    parser.add_argument("--steps", type=int, default=8, help="of a round, each contender")
    parser.add_argument("--rounds", type=int, default=2, help="how often they take turns")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.backends.cudnn.allow_tf32 = False  # float32 is float32 in both contenders
    device: str = options.device

    data = make(EPOCH)
    found: dict[str, Steps] = {}
    every: list[Precision] = ["float32"]
    if supports_bfloat16(device):
        every.append("bfloat16")
    for _ in range(options.rounds):
        for precision in every:
            seen, batches = ours(data, precision, options.steps, device)
            _add(found, precision, seen)
        _add(found, "plain", plain(data, batches, device))
    work = products(data, batches)
    steps = EPOCH / len(batches[0])
    slowest = [statistics.median(v) for v in (found["plain"].clock, found["plain"].processor)]
    rows = []
    for name in ("plain", *every):
        seen = found[name]
        clock, processor = statistics.median(seen.clock), statistics.median(seen.processor)
        dtype = torch.bfloat16 if name == "bfloat16" else torch.float32
        spent = processor if device == "cpu" else clock
        share = work / spent * (options.threads if device == "cpu" else 1) / peak(dtype, device)
        rows.append(
            (
                "plain PyTorch" if name == "plain" else f"ours, {name}",
                *(f"{steps * seconds:.1f}" for seconds in (clock, processor)),
                f"{slowest[0] / clock:.1f} x",
                f"{slowest[1] / processor:.1f} x",
                f"{share:.0%}",
                f"{seen.losses[-1]:.3f}",
            )
        )
    heads = ("", "epoch, s", "processor, s", "faster", "(processor)", "of peak", "last loss")
    print(table(heads, rows))
    apart = {
        name: _apart(found[name].losses, found["plain"].losses, options.steps) for name in every
    }
    differ = " and ".join(f"{apart[name]:.2%}" for name in every)
    print(
        f"\nan epoch of {EPOCH:,} captions from the median of {len(found['plain'].clock)} steps of "
        f"128; N = 1024; losses of the first {AGREED} steps of a round differ by "
        f"{differ} at most; torch {torch.__version__}, "
        f"{options.threads} threads, {device if device != 'cpu' else platform.machine()}"
    )
    for name in every:
        assert apart[name] <= TOLERANCE[name], f"{name} does not learn what plain PyTorch learns"


def _apart(ours: list[float], theirs: list[float], steps: int) -> float:
    """Return by what share two contenders' losses differ at most where they are to agree."""
    each = np.reshape(ours, (-1, steps)) / np.reshape(theirs, (-1, steps)) - 1
    return float(np.abs(each[:, :AGREED]).max())


def _add(found: dict[str, Steps], name: str, seen: Steps) -> None:
    kept = found.setdefault(name, Steps())
    kept.losses += seen.losses
    kept.clock += seen.clock[1:]  # the first step sets things up
    kept.processor += seen.processor[1:]


if __name__ == "__main__":
    main()
