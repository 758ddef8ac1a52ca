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
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np

from hasse.lab.checkpoints import learned_model
from hasse.lab.pipelines.training import TrainingPlan
from hasse.lab.training.distributed import World
from hasse.models.checkpoints.model_folder import CONFIG
from hasse.models.files import write_atomically
from hasse.studies.grounding.command import choices_with, lessons_of, request_of
from hasse.studies.grounding.word_vectors import WordVectors
from hasse.studies.tables.report import markdown, parser_of, say, silent
from hasse.studies.tables.seeds import add_trainings, seeds_of, train
from hasse.studies.transfer.evaluation import evaluate
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
    has_images = recipe != "cap2cap"
    vectors = WordVectors.read(options.vectors)
    request = request_of(
        options.dataset,
        folder,
        recipe,
        choices_with({**options.choices, "seed": seed}, vectors),
        features=options.features if has_images else None,
        weights=options.weights if has_images else None,
    )
    if name == TWIN and (folder / CONFIG).is_file():
        return folder
    plan = TrainingPlan.of(request, options.device)
    lessons = lessons_of(plan, vectors)
    if name == TWIN:
        folder.mkdir(parents=True, exist_ok=True)
        training = plan.prepare(
            World(options.device), lambda label: nullcontext(silent), lambda line: None, lessons
        )
        learned_model.save(folder, training.model, name, {})
    else:
        train(plan, options.device, lessons)
    return folder


def measured(models: Mapping[str, Path], options: argparse.Namespace, seed: int) -> Scores:
    """Measure one training of each model on all tasks and pairs of words, x 100.

    What was measured in an earlier call is read.
    """
    kept = options.out / f"scores-{seed}.json"
    found: Scores = json.loads(kept.read_bytes()) if kept.is_file() else {}
    vectors = WordVectors.read(options.vectors)
    alone = {name: SentenceEncoder.of([folder], None, "cpu") for name, folder in models.items()}
    columns = {**alone, VECTORS: SentenceEncoder([], [], vectors)}
    if not options.brief:
        columns |= {f"{BESIDE}{name}": replace(one, vectors=vectors) for name, one in alone.items()}
    for pairs in read_word_pairs(options.tasks):
        found[pairs.name] = {
            column: value
            for column, encoder in columns.items()
            if (value := similarity(pairs, encoder.encode_words, columns[VECTORS].knows).value)
            is not None
        }
    for task in read_tasks(options.tasks):
        if options.task and task.name not in options.task:
            continue
        row = found.setdefault(task.name, {})
        for column, encoder in columns.items():
            if column not in row:
                row[column] = evaluate(task, encoder.encode, most=options.most, seed=seed).value
                write_atomically(kept, json.dumps(found, indent=1).encode())
                say(f"seed {seed}: {task.name}, {column}")
    return found


def over_seeds(values: Sequence[float]) -> str:
    """Return a mean and, of several values, half the width of its interval."""
    mean = f"{np.mean(values):.1f}"
    if len(values) < 2:
        return mean
    half = STUDENT[len(values) - 2] * np.std(values, ddof=1) / np.sqrt(len(values))
    return f"{mean} ± {half:.1f}"


def retrieval_row(folders: Sequence[Path]) -> list[str]:
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
    return [*cells, rsum, f"{epoch:.0f}", f"{seconds:.0f}"]


def table(scores: Sequence[Scores], columns: Sequence[str], twin: Mapping[str, str]) -> str:
    """Return a table of all tasks: the mean of each column, and what it has more than its twin.

    A column may lack seeds; its difference is over those that it has.
    """
    lines = []
    for task in scores[0]:
        if not all(column in scores[0][task] for column in columns):
            continue
        cells = [task]
        for column in columns:
            rows = [one[task] for one in scores if column in one[task]]
            cell = over_seeds([row[column] for row in rows])
            if column in twin:
                gaps = [row[column] - row[twin[column]] for row in rows]
                cell += f" ({'+' if np.mean(gaps) >= 0 else ''}{over_seeds(gaps)})"
            cells.append(cell)
        lines.append(cells)
    return markdown(["", *columns], lines)


def main() -> None:
    """Train and measure missing models, and print the tables."""
    parser = parser_of(__doc__)
    parser.add_argument("dataset", type=Path, help="made by 'hasse lab data import'")
    parser.add_argument("features", type=Path, help="made by 'hasse lab features'")
    parser.add_argument("vectors", type=Path, help="word vectors as text")
    parser.add_argument("tasks", type=Path, help="the folder of 'hasse study transfer'")
    parser.add_argument("--weights", type=Path, help="those the features were made with")
    add_trainings(parser, GROUNDED)
    parser.add_argument("--task", nargs="*", metavar="NAME", help="these sentence tasks alone")
    parser.add_argument("--brief", action="store_true", help="nothing side by side")
    parser.add_argument("--most", type=int, default=100_000, help="training examples of a task")
    options = parser.parse_args()
    recipes = {TWIN: "cap2img", **{name: name for name in GROUNDED}}
    scores: list[Scores] = []
    folders: dict[str, list[Path]] = {name: [] for name in recipes}
    for seed in range(options.seeds):
        models = {
            name: trained(name, recipe, seed, options)
            for name, recipe in recipes.items()
            if seed in seeds_of(name, options)
        }
        for name, folder in models.items():
            folders[name].append(folder)
        scores.append(measured(models, options, seed))
    columns = ("captions R@1/5/10", "median", "mean", "images R@1/5/10", "median", "mean")
    with_images = [name for name in GROUNDED if name != "cap2cap"]
    rows = [[name, *retrieval_row(folders[name])] for name in with_images]
    print(markdown(("", *columns, "rsum", "epoch", "seconds"), rows))
    print(f"\n{table(scores, [VECTORS, TWIN, *GROUNDED], dict.fromkeys(GROUNDED, TWIN))}")
    if not options.brief:
        beside = [f"{BESIDE}{name}" for name in (TWIN, *GROUNDED)]
        print(f"\n{table(scores, [VECTORS, *beside], dict.fromkeys(beside, VECTORS))}")
    once = f", of {' and '.join(options.once)} one" if options.once else ""
    print(f"\n{options.seeds} seeds{once}")


if __name__ == "__main__":
    main()
