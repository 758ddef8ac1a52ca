"""The tables of Kiela et al. (2018): gains of grounded sentence embeddings, over several seeds.

    python -m hasse.studies.tables.grounding DATASET FEATURES VECTORS TASKS --out data/grounding

Trains the recipes cap2img, cap2cap, cap2both and cap2order on fixed word vectors, each with several
seeds. Beside them stands their ungrounded twin: the same text encoder with random weights. Printed
are retrieval on the validation split, the sentence tasks in TASKS by a logistic regression, and the
correlation with people on pairs of words: means over the seeds, with 95 % intervals of Student's t.
"Side by side" is what the paper calls GroundSent: the embedding beside the mean of the words'
vectors, which is the half that was learned from text. A difference is the mean of those of each
seed.

Trainings and what each seed measured are kept in --out: run the command again to go on after a
stop. --task and --brief leave out what takes longest.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import numpy as np

from hasse.models.checkpoints import checkpoint
from hasse.models.checkpoints.model_folder import CONFIG
from hasse.models.files import write_atomically
from hasse.models.model import Points
from hasse.models.training.distributed import World
from hasse.models.training.recipe import Recipe, find
from hasse.models.training.state import read_notes
from hasse.service.pipelines.training import TrainingPlan, TrainingRequest
from hasse.studies.grounding.command import RECIPES_OF_GROUNDING, choices_with, lessons_of
from hasse.studies.grounding.decoder import DecodingOptions
from hasse.studies.grounding.word_vectors import WordVectors
from hasse.studies.tables.recipes import report
from hasse.studies.transfer.evaluation import PairFeatures, evaluate
from hasse.studies.transfer.sentence_encoder import SentenceEncoder
from hasse.studies.transfer.tasks import read_tasks
from hasse.studies.transfer.words import read_word_pairs, similarity

GROUNDED = ("cap2img", "cap2cap", "cap2both", "cap2order")
# Student's t of 95 %, by degrees of freedom.
STUDENT = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)
TWIN, VECTORS, BESIDE = "untrained", "vectors", "side by side with "
Scores = dict[str, dict[str, float]]  # by task, and by what is measured


def trained(name: str, recipe: str, seed: int, options: argparse.Namespace) -> Path:
    """Train a recipe, or find it trained to the end; the twin is what cap2img starts from."""
    folder: Path = options.out / f"{name}-{seed}"
    folders, options_of_lessons = (RECIPES_OF_GROUNDING,), (DecodingOptions(),)
    found = Recipe.read(find(recipe, folders), options_of_lessons)
    has_images = found.config.model.has_images
    vectors = WordVectors.read(options.vectors)
    request = TrainingRequest(
        options.dataset,
        folder,
        recipe,
        choices_with({**options.choices, "seed": seed}, vectors),
        features=options.features if has_images else None,
        weights=options.weights if has_images else None,
        recipes=folders,
        lessons=options_of_lessons,
    )
    notes = read_notes(folder)
    if name == TWIN and (folder / CONFIG).is_file():
        return folder
    if notes is not None and notes["epoch"] == notes["config"]["epochs"]:
        return folder
    plan = TrainingPlan.of(request, options.device)
    training = plan.prepare(
        World(options.device),
        lambda label: nullcontext(lambda done, total: None),
        lambda line: None,
        lessons_of(plan, vectors),
    )
    if name == TWIN:
        folder.mkdir(parents=True, exist_ok=True)
        checkpoint.save(folder, training.model, name, {})
    else:
        training.train(partial(report, folder.name))
    return folder


class Embeddings:
    """Sentences and words as each model has them, and side by side with word vectors.

    What was encoded last is kept, since all columns of a table measure the same sentences.
    """

    def __init__(self, models: Mapping[str, Path], vectors: WordVectors, beside: bool) -> None:
        self._encoders = {
            name: SentenceEncoder.of([folder], None, "cpu") for name, folder in models.items()
        }
        self._encoders[VECTORS] = SentenceEncoder([], [], vectors)
        self._kept: dict[tuple[str, tuple[str, ...]], Points] = {}
        self.columns = [*self._encoders, *(f"{BESIDE}{name}" for name in models if beside)]

    def begin(self) -> None:
        """Forget the sentences of the task before."""
        self._kept.clear()

    def sentences(self, column: str) -> Callable[[Sequence[str]], Points]:
        """Return the encoder of sentences for a column."""
        return lambda texts: self._encoded(column, tuple(texts), SentenceEncoder.encode)

    def words(self, column: str) -> Callable[[Sequence[str]], Points]:
        """Return the encoder of single words for a column."""
        return lambda texts: self._encoded(column, tuple(texts), SentenceEncoder.encode_words)

    def knows(self, text: str) -> bool:
        """Tell whether a word has a vector, which all models read."""
        return self._encoders[VECTORS].knows(text)

    def _encoded(
        self,
        column: str,
        texts: tuple[str, ...],
        encode: Callable[[SentenceEncoder, Sequence[str]], Points],
    ) -> Points:
        if column.startswith(BESIDE):
            parts = (column.removeprefix(BESIDE), VECTORS)
            return np.concatenate([_unit(self._encoded(one, texts, encode)) for one in parts], 1)
        if (column, texts) not in self._kept:
            self._kept[column, texts] = encode(self._encoders[column], texts)
        return self._kept[column, texts]


def _unit(points: Points) -> Points:
    length = np.linalg.norm(points, axis=1, keepdims=True)
    unit: Points = points / np.maximum(length, 1e-12)
    return unit


def measured(models: Mapping[str, Path], options: argparse.Namespace, seed: int) -> Scores:
    """Measure one training of each model on all tasks and pairs of words, x 100.

    What was measured in an earlier call is read.
    """
    kept = options.out / f"scores-{seed}.json"
    found: Scores = json.loads(kept.read_bytes()) if kept.is_file() else {}
    embeddings = Embeddings(models, WordVectors.read(options.vectors), not options.brief)
    for pairs in read_word_pairs(options.tasks):
        found[pairs.name] = {
            column: value
            for column in embeddings.columns
            if (value := similarity(pairs, embeddings.words(column), embeddings.knows).value)
            is not None
        }
    for task in read_tasks(options.tasks):
        if options.task and task.name not in options.task:
            continue
        directed = task.train.second and not options.brief
        kinds: tuple[PairFeatures, ...] = ("paper", "directed") if directed else ("paper",)
        for kind in kinds:
            name = task.name if kind == "paper" else f"{task.name}, directed"
            row = found.setdefault(name, {})
            columns = [one for one in embeddings.columns if kind == "paper" or BESIDE not in one]
            for column in columns:
                if column not in row:
                    encode = embeddings.sentences(column)
                    row[column] = evaluate(task, encode, kind, most=options.most, seed=seed).value
                    write_atomically(kept, json.dumps(found, indent=1).encode())
                    print(f"seed {seed}: {name}, {column}", file=sys.stderr, flush=True)
        embeddings.begin()
    return found


def over_seeds(values: Sequence[float]) -> str:
    """Return a mean and, of several values, half the width of its interval."""
    mean = f"{np.mean(values):.1f}"
    if len(values) < 2:
        return mean
    half = STUDENT[len(values) - 2] * np.std(values, ddof=1) / np.sqrt(len(values))
    return f"{mean} ± {half:.1f}"


def retrieval_row(folders: Sequence[Path]) -> str:
    """Return the cells of a model's retrieval on the validation split, at its best epochs."""
    every = [json.loads((folder / "metrics.json").read_bytes()) for folder in folders]
    best = [max(one["history"], key=lambda row: row["validation"]["rsum"]) for one in every]
    found = [row["validation"] for row in best]

    def mean(direction: str, metric: str) -> float:
        return float(np.mean([one[f"{direction}_retrieval"][metric] for one in found]))

    cells = []
    for direction in ("caption", "image"):
        cells.append("/".join(f"{mean(direction, metric):.1f}" for metric in ("r1", "r5", "r10")))
        cells.append(f"{mean(direction, 'median'):.1f}")
        cells.append(f"{mean(direction, 'mean'):.1f}")
    seconds = np.mean([one["seconds"] for one in every])
    rsum = over_seeds([one["rsum"] for one in found])
    epoch = np.mean([row["epoch"] for row in best])
    return " | ".join([*cells, rsum, f"{epoch:.0f}", f"{seconds:.0f}"])


def table(scores: Sequence[Scores], columns: Sequence[str], twin: Mapping[str, str]) -> str:
    """Return a table of all tasks: the mean of each column, and what it has more than its twin.

    A column may lack seeds; its difference is over those that it has.
    """
    lines = [f"| | {' | '.join(columns)} |", "|---" * (1 + len(columns)) + "|"]
    for task in scores[0]:
        if not all(column in scores[0][task] for column in columns):
            continue
        cells = []
        for column in columns:
            rows = [one[task] for one in scores if column in one[task]]
            cell = over_seeds([row[column] for row in rows])
            if column in twin:
                gaps = [row[column] - row[twin[column]] for row in rows]
                cell += f" ({'+' if np.mean(gaps) >= 0 else ''}{over_seeds(gaps)})"
            cells.append(cell)
        lines.append(f"| {task} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Train and measure missing models, and print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("dataset", type=Path, help="made by 'hasse lab data import'")
    parser.add_argument("features", type=Path, help="made by 'hasse lab features'")
    parser.add_argument("vectors", type=Path, help="word vectors as text")
    parser.add_argument("tasks", type=Path, help="the folder of 'hasse study transfer'")
    parser.add_argument("--out", type=Path, required=True, help="where all is kept")
    parser.add_argument("--weights", type=Path, help="those the features were made with")
    parser.add_argument("--seeds", type=int, choices=range(1, 11), default=3)
    parser.add_argument(
        "--once", nargs="*", default=[], choices=GROUNDED, help="trained with the first seed alone"
    )
    parser.add_argument("--task", nargs="*", metavar="NAME", help="these sentence tasks alone")
    parser.add_argument(
        "--brief", action="store_true", help="nothing side by side, and no directed features"
    )
    parser.add_argument("--most", type=int, default=100_000, help="training examples of a task")
    parser.add_argument("--device", default="cpu")
    parser.add_argument(
        "--set",
        dest="choices",
        nargs="*",
        default=[],
        metavar="NAME=VALUE",
        help="in all trainings",
    )
    options = parser.parse_args()
    options.choices = dict(choice.split("=", 1) for choice in options.choices)
    recipes = {TWIN: "cap2img", **{name: name for name in GROUNDED}}
    scores: list[Scores] = []
    folders: dict[str, list[Path]] = {name: [] for name in recipes}
    for seed in range(options.seeds):
        models = {
            name: trained(name, recipe, seed, options)
            for name, recipe in recipes.items()
            if seed == 0 or name not in options.once
        }
        for name, folder in models.items():
            folders[name].append(folder)
        scores.append(measured(models, options, seed))
    columns = "R@1/5/10 | median | mean"
    print(f"| | captions {columns} | images {columns} | rsum | epoch | seconds |")
    print("|---" * 10 + "|")
    for name in GROUNDED:
        if name != "cap2cap":  # it has no images
            print(f"| {name} | {retrieval_row(folders[name])} |")
    print(f"\n{table(scores, [VECTORS, TWIN, *GROUNDED], dict.fromkeys(GROUNDED, TWIN))}")
    if not options.brief:
        beside = [f"{BESIDE}{name}" for name in (TWIN, *GROUNDED)]
        print(f"\n{table(scores, [VECTORS, *beside], dict.fromkeys(beside, VECTORS))}")
    once = f", of {' and '.join(options.once)} one" if options.once else ""
    print(f"\n{options.seeds} seeds{once}")


if __name__ == "__main__":
    main()
