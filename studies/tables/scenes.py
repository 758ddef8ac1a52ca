"""How well does a model find every scene that a caption is true of, and what else does it know?

    python -m hasse.studies.tables.scenes data/scenes [MODEL ...]

Scenes know their meaning, so the truth of any caption for any picture is known. The first table
compares models, over the test split:

    1 concept, 2 concepts   mean average precision of the pictures that a caption of one concept
                            ("an animal") or two ("a red kite") is true of; the captions are
                            sampled from the language of captions and not from the split
    full R@10               captions that say all there is: a true picture among the first ten
    any caption             mean average precision over the split's own captions, of all levels
    caption R@1             pictures asking for captions: is the first one true?

with half of the 95 % bootstrap interval over queries, and, for every model after the first, the
difference to the first on the same queries. The other tables are of the first model, which has to
have the score order: `studies.tables.lattice` describes them.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hasse.lab.checkpoints.learned_model import load
from hasse.lab.evaluation.ranking import average_precisions, best_ranks
from hasse.models.checkpoints.checkpoint import Checkpoint
from hasse.models.checkpoints.named_models import find, pretrained
from hasse.models.datasets import Dataset
from hasse.models.datasets import load as load_dataset
from hasse.models.images.decoding import open_picture
from hasse.models.score import penalties_between
from hasse.scenes import Scene, SceneTable, Statement, sample_statements
from hasse.service.cli.terminal.table import print_table
from hasse.studies.tables import lattice
from hasse.studies.tables.report import Values, machine, parser_of, percent, show

GroundTruth = NDArray[np.bool_]
Questions = dict[str, tuple[list[str], GroundTruth]]  # texts (Q,), and what is true of what (Q, I)


@dataclass(frozen=True, slots=True)
class Bench:
    """A model, a split and the points of its pictures."""

    checkpoint: Checkpoint
    dataset: Dataset
    scenes: list[Scene]
    images: Tensor  # (I, N)

    @classmethod
    def of(cls, checkpoint: Checkpoint, dataset: Dataset) -> Self:
        """Encode the pictures of a split."""
        points = checkpoint.model.encode_images([open_picture(i.path) for i in dataset.images])
        scenes = [Scene.from_json(image.meaning or {}) for image in dataset.images]
        return cls(checkpoint, dataset, scenes, torch.from_numpy(points))

    def captions(self, texts: Sequence[str]) -> Tensor:
        """Encode captions, each once: (C, N)."""
        once = list(dict.fromkeys(texts))
        points = torch.from_numpy(self.checkpoint.model.encode_captions(once))
        place = {text: at for at, text in enumerate(once)}
        return points[[place[text] for text in texts]]


def questions_of(dataset: Dataset, number: int) -> Questions:
    """Return the captions of each column; those true of no picture or of all are left out."""
    table = SceneTable([Scene.from_json(image.meaning or {}) for image in dataset.images])
    own = [Statement.from_json(caption.meaning or {}) for caption in dataset.captions]
    draw = random.Random(0)
    found: Questions = {}
    for name, statements in (
        ("1 concept", sample_statements(draw, number, concepts=1)),
        ("2 concepts", sample_statements(draw, number, concepts=2)),
        ("full R@10", [statement for statement in own if statement.full]),
        ("any caption", own),
    ):
        true = np.stack([table.holds(statement) for statement in statements])
        kept = np.flatnonzero(true.any(1) & ~true.all(1))
        found[name] = [statements[row].text for row in kept], true[kept]
    return found


def retrieval(bench: Bench, questions: Questions) -> dict[str, Values]:
    """Return, for each column of the first table, one value in [0, 1] per query."""
    score = bench.checkpoint.model.config.score

    def ask(kind: str) -> tuple[NDArray[np.float32], GroundTruth]:
        texts, true = questions[kind]
        return penalties_between(score, bench.images.numpy(), bench.captions(texts).numpy()).T, true

    every, true = ask("any caption")
    values = {kind: average_precisions(*ask(kind)) for kind in ("1 concept", "2 concepts")}
    values["full R@10"] = (best_ranks(*ask("full R@10"))[0] <= 10).astype(float)
    values["any caption"] = average_precisions(every, true)
    values["caption R@1"] = (best_ranks(every.T, true.T)[0] <= 1).astype(float)
    return values


def print_retrieval(results: dict[str, dict[str, Values]]) -> None:
    """Print one row a model, and one for each difference to the first."""
    first_name, first = next(iter(results.items()))
    rows = []
    for name, columns in results.items():
        rows.append((name, *(percent(values) for values in columns.values())))
        if name != first_name:
            gaps = (columns[column] - first[column] for column in columns)
            rows.append((f"less {first_name}", *(percent(gap, signed=True) for gap in gaps)))
    print_table(("retrieval", *(f"{name} ({len(one)})" for name, one in first.items())), rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = parser_of(__doc__)
    parser.add_argument("dataset", type=Path, help="made by 'hasse lab data import scenes'")
    parser.add_argument("models", type=Path, nargs="*", help="checkpoints; the built-in one")
    parser.add_argument("--split", default="test", help="the pictures and captions asked about")
    parser.add_argument("--queries", type=int, default=1000, help="of each kind in the first table")
    parser.add_argument("--questions", type=int, default=500, help="of each kind in the others")
    options = parser.parse_args(arguments)

    started = time.monotonic()
    dataset = load_dataset(options.dataset).split(options.split)
    checkpoints = [load(find(each)) for each in options.models or [pretrained("scenes")]]
    benches = [Bench.of(each, dataset) for each in checkpoints]
    questions = questions_of(dataset, options.queries)
    print_retrieval(
        {
            f"{one.checkpoint.name} ({one.checkpoint.model.config.score})": retrieval(
                one, questions
            )
            for one in benches
        }
    )
    if checkpoints[0].model.config.score == "order":
        for title, heads, measured in lattice.tables(benches[0], options.questions):
            show(title, heads, measured)
    print(
        f"\n{len(dataset)} images of the {options.split} split; percent; 95 % bootstrap intervals; "
        f"model {checkpoints[0].fingerprint[:12]}; {time.monotonic() - started:.0f} s, {machine()}"
    )


if __name__ == "__main__":
    main()
