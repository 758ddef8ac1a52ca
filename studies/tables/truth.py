"""Does a model say that something is not there, and find what is?

    python -m hasse.studies.tables.truth data/names --skip 2

The pictures are named by what they show, as n02084071_1_dog.jpg. Each name is asked for twice: of
all pictures, and of those without its own. The table has how often the first picture is right, how
well the probability of the first one tells the two kinds of collections apart, and, of the names,
the share that is called likely and rightly so where it is there, and called unlikely where not;
and the largest share of names that can be answered, the most probable first, so that 95 % of the
answers are right.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hasse.lab.checkpoints.learned_model import load
from hasse.lab.evaluation.significance import draws
from hasse.models.checkpoints.checkpoint import Checkpoint
from hasse.models.checkpoints.named_models import find
from hasse.models.datasets import DatasetError, Image
from hasse.models.datasets import load as load_dataset
from hasse.models.score import penalties_between
from hasse.service.verdict import SHOWS
from hasse.service.writing.image_source import ImageSource
from hasse.studies.bootstrap import interval
from hasse.studies.photographs.classes import article
from hasse.studies.tables.report import parser_of

_NAMED = re.compile(r"(n\d{8})_\d+_(.+)\.\w+$")

Floats = NDArray[np.float64]

RIGHT = 0.95  # of the answers that a coverage counts


def names_of(images: Sequence[Image], skip: int) -> tuple[list[int], list[str]]:
    """Return the rows of the pictures that count and the name of each; the first are skipped."""
    seen: dict[str, int] = defaultdict(int)
    rows, names = [], []
    for row, image in enumerate(images):
        found = _NAMED.search(image.path.name)
        if found is None:
            continue
        seen[found[1]] += 1
        if seen[found[1]] > skip:
            rows.append(row)
            names.append(found[2].replace("_", " ").split(" or ")[0])
    return rows, names


def measure(
    probability: Floats, violations: Floats, own: NDArray[np.bool_]
) -> dict[str, list[float]]:
    """Return the figures of the table, each with a 95 % interval over names.

    Args:
        probability, violations: (I, T), of all pictures and names.
        own: (I, T), which pictures are of which name.
    """
    each = np.arange(own.shape[1])
    first = violations.argmin(0)
    without = np.where(own, np.inf, violations).argmin(0)
    there, absent = probability[first, each], probability[without, each]
    right = own[first, each]
    beaten = (there[:, None] > absent) + 0.5 * (there[:, None] == absent)
    figures = {
        "first picture right": right,
        "AUC, there against left out": beaten.mean(1),
        "there: found and called likely": right & (there >= SHOWS),
        "left out: nothing called likely": absent < SHOWS,
    }
    found = {
        name: [float(np.mean(values)), *interval(np.asarray(values, np.float64).tolist())]
        for name, values in figures.items()
    }
    one = np.ones(len(each))
    sampled = [coverage(there, right, weights) for weights in draws(len(each))]
    low, high = np.percentile(sampled, [2.5, 97.5])
    found[f"answered, {RIGHT:.0%} of them right"] = [coverage(there, right, one), low, high]
    return found


def coverage(probability: Floats, right: NDArray[np.bool_], weights: NDArray[Any]) -> float:
    """Return the largest share of queries that can be answered so that `RIGHT` of them are right.

    Queries (Q,) are answered from the most probable down; `weights` (Q,) count them.
    """
    order = np.argsort(-probability, kind="stable")
    answered, good = np.cumsum(weights[order]), np.cumsum((weights * right)[order])
    enough = answered[good >= RIGHT * answered]
    return float(enough.max(initial=0) / max(1, answered[-1]))


def table(checkpoint: Checkpoint, folder: Path, skip: int) -> dict[str, list[float]]:
    """Measure a model on a dataset of named pictures."""
    dataset = load_dataset(folder)
    source = ImageSource()
    batches = list(source.encode(checkpoint.model, dataset.images))
    if not batches:
        raise source.no_images_error(dataset)
    images = np.concatenate([batch.points for batch in batches])
    rows, names = names_of([image for batch in batches for image in batch.images], skip)
    if not rows:
        raise DatasetError(
            f"no picture of the dataset '{dataset.name}' counts: name pictures as "
            f"n02084071_1_dog.jpg, more than {skip} of each"
        )
    texts = list(dict.fromkeys(names))
    asked = [article(text) for text in texts]
    points = checkpoint.model.encode_captions(asked)
    found = penalties_between(checkpoint.model.config.score, images[rows], points)
    judge = checkpoint.judge("image")
    if judge is None:
        sys.exit(f"{checkpoint.folder} is not calibrated: calibrate it first")
    probability = judge.table(asked, images[rows], found)
    own = np.array(names)[:, None] == np.array(texts)
    return measure(probability, found.astype(np.float64), own)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = parser_of(__doc__)
    parser.add_argument("dataset", type=Path, help="made by 'hasse lab data import folder'")
    parser.add_argument("--model", type=Path, default=Path("photographs"))
    parser.add_argument("--skip", type=int, default=0, help="pictures of each name, the first")
    options = parser.parse_args(arguments)
    found = table(load(find(options.model)), options.dataset, options.skip)
    for name, (value, low, high) in found.items():
        print(f"| {name} | {value:.3f} ({low:.3f} to {high:.3f}) |")


if __name__ == "__main__":
    main()
