"""Table 2 of the paper with rows of one's own beside it.

    python -m hasse.studies.tables.coco data/coco data/order data/cosine --features data/coco-vgg19

The dataset is that of `hasse lab data import karpathy dataset_coco.json`, and `hasse lab train`
wrote the checkpoints.
Each is measured as the paper measures (Vendrov et al., section 4.5): on the first five captions of
each of the 5,000 test images, over all of them, and as the mean over five blocks of 1,000. Features
are read where a folder of them was made by a checkpoint's own network; else the pictures are.
docs/papers.md has every step from the downloads to here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

from hasse.lab.checkpoints.learned_model import load
from hasse.lab.evaluation.retrieval import Evaluation
from hasse.lab.features.feature_store import FeaturesError, FeatureStore
from hasse.lab.features.source import require_features_of, with_features
from hasse.lab.pipelines.dataset_encoding import encode_dataset
from hasse.lab.pipelines.evaluation import measure
from hasse.models.checkpoints.checkpoint import Checkpoint
from hasse.models.datasets import Dataset
from hasse.models.datasets import load as load_dataset
from hasse.service.writing.image_source import ImageSource
from hasse.studies.tables.report import markdown, parser_of, say, silent

BLOCKS = 5
CAPTIONS = 5  # an image's further ones are left out, as the field does


@dataclass(frozen=True, slots=True)
class Direction:
    """One direction of retrieval in the paper's columns; None where it has an asterisk."""

    r1: float | None
    r10: float | None
    median: float | None
    mean: float | None


@dataclass(frozen=True, slots=True)
class TableRow:
    """A line of the table."""

    model: str
    captions: Direction
    images: Direction


def _published(text: str) -> tuple[TableRow, ...]:
    """Read lines of a model, its R@1, R@10, median and mean rank of captions, then of images."""
    rows = []
    for line in text.strip().splitlines():
        name, *cells = re.split(r"  +", line.strip())
        values = [None if cell == "*" else float(cell) for cell in cells]
        rows.append(TableRow(name, Direction(*values[:4]), Direction(*values[4:])))
    return tuple(rows)


# Table 2, as printed.
PAPER_BLOCKS = _published(
    """
    MNLM                         43.4  85.8  2     *     31.0  79.9  3    *
    m-RNN                        41.0  83.5  2     *     29.0  77.0  3    *
    DVSA                         38.4  80.5  1     *     27.4  74.8  3    *
    STV                          33.8  82.1  3     *     25.9  74.6  4    *
    FV                           39.4  80.9  2     10.4  25.1  76.6  4    11.1
    m-CNN                        38.3  81.0  2     *     27.4  79.5  3    *
    m-CNN, four models           42.8  84.1  2     *     32.6  82.8  3    *
    order-embeddings (reversed)  11.2  44.0  14.2  86.6  12.3  53.5  9.0  30.1
    order-embeddings (1-crop)    41.4  84.2  2.0   8.7   33.5  82.2  2.6  10.0
    order-embeddings (symm.)     45.4  88.7  2.0   5.8   36.3  85.8  2.0  9.0
    order-embeddings             46.7  88.9  2.0   5.7   37.9  85.9  2.0  8.1
    """
)
PAPER_ALL = _published(
    """
    DVSA                         11.8  45.4  12.2  *     8.9   36.3  19.5  *
    FV                           17.3  50.2  10.0  46.4  10.8  40.1  17.0  49.3
    order-embeddings (symm.)     21.5  62.9  6.0   24.4  16.8  56.3  8.0   40.4
    order-embeddings             23.3  65.0  5.0   24.4  18.0  57.6  7.0   35.9
    """
)


def row(name: str, evaluated: Evaluation) -> TableRow:
    """Return the columns of the paper's table from an evaluation."""
    captions, images = (
        Direction(metrics.r1, metrics.r10, metrics.median, metrics.mean)
        for metrics in (evaluated.caption_retrieval, evaluated.image_retrieval)
    )
    return TableRow(name, captions, images)


def measured(
    checkpoint: Checkpoint, dataset: Dataset, features: Sequence[Path]
) -> tuple[TableRow, TableRow]:
    """Measure a checkpoint in blocks and over all images."""
    source = with_features(ImageSource(skipped=say), _features_of(checkpoint, features))
    encoded = encode_dataset(checkpoint.model, dataset, source, silent)
    name = f"{checkpoint.name} ({checkpoint.model.config.score})"
    in_blocks, over_all = (
        row(name, measure(checkpoint, encoded, folds, silent).evaluation) for folds in (BLOCKS, 1)
    )
    return in_blocks, over_all


def table(title: str, paper: Sequence[TableRow], ours: Sequence[TableRow]) -> str:
    """Lay the paper's rows and ours out as the paper does, in Markdown."""
    columns = ("R@1", "R@10", "Med r", "Mean r")
    heads = [title, *(f"{side}: {name}" for side in ("captions", "images") for name in columns)]
    rows = []
    for one in (*paper, *ours):
        bold = "**" if one in ours else ""
        cells = [
            "*" if value is None else f"{value:.1f}"
            for side in (one.captions, one.images)
            for value in astuple(side)
        ]
        rows.append([f"{bold}{one.model}{bold}", *cells])
    return markdown(heads, rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print both halves of the table."""
    parser = parser_of(__doc__)
    parser.add_argument("dataset", type=Path, help="made by 'hasse lab data import karpathy'")
    parser.add_argument("models", type=Path, nargs="+", help="checkpoint folders")
    parser.add_argument("--features", type=Path, nargs="*", default=(), help="of any of them")
    parser.add_argument("--split", default="test")
    options = parser.parse_args(arguments)

    dataset = load_dataset(options.dataset).split(options.split)
    captions = len(list(dataset.captions))
    dataset = dataset.first_captions(CAPTIONS)
    left_out = captions - len(list(dataset.captions))
    if left_out:
        say(f"captions beyond the first {CAPTIONS} of an image: {left_out:,}, left out")
    ours = [measured(load(folder), dataset, options.features) for folder in options.models]
    in_blocks, over_all = [one[0] for one in ours], [one[1] for one in ours]
    each = round(len(dataset) / BLOCKS)
    print(table(f"{each:,} test images, mean of five", PAPER_BLOCKS, in_blocks))
    print()
    print(table(f"{len(dataset):,} test images", PAPER_ALL, over_all))


def _features_of(checkpoint: Checkpoint, folders: Sequence[Path]) -> Path | None:
    """Return the folder of features that a checkpoint's own network made, if there is one."""
    for folder in folders:
        try:
            require_features_of(checkpoint.model, FeatureStore.open(folder), folder)
        except FeaturesError:
            continue
        return folder
    return None


if __name__ == "__main__":
    main()
