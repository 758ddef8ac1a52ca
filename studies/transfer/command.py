"""`hasse study transfer`: measure sentence embeddings on tasks beside retrieval."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hasse.service.cli.terminal.errors import CommandError
from hasse.service.cli.terminal.options import Device, Json
from hasse.service.cli.terminal.progress import progress
from hasse.service.cli.terminal.table import print_table

if TYPE_CHECKING:
    from hasse.studies.transfer.evaluation import Result
    from hasse.studies.transfer.words import Similarity

Folder = Annotated[
    Path,
    typer.Argument(
        metavar="FOLDER",
        help="Holds the tasks' files as they are distributed, in any folders below it.",
    ),
]
Models = Annotated[
    list[Path] | None,
    typer.Option(
        "--model",
        "-m",
        metavar="DIR",
        help="A checkpoint, or a built-in one's name. Repeated, their embeddings stand side by "
        "side, each of unit length.",
    ),
]
Vectors = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Word vectors as text, a word and its numbers a line: sentences as their mean, alone "
        "or side by side with --model.",
    ),
]
Only = Annotated[
    list[str] | None, typer.Option("--task", help="Measure this task alone; repeat it for more.")
]
Most = Annotated[
    int, typer.Option(min=100, help="Draw so many training examples of a task that has more.")
]


def transfer(
    *,
    folder: Folder,
    model: Models = None,
    vectors: Vectors = None,
    task: Only = None,
    most: Most = 100_000,
    seed: Annotated[int, typer.Option(help="Another seed draws other folds.")] = 0,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Measure sentence embeddings by a logistic regression on top, and embeddings of words.

    Of MR, CR, SUBJ, MPQA, SST, MRPC, SNLI and SICK, and of MEN, SimLex-999, RW and WS-353, those
    are measured whose files are in FOLDER.

    \b
    Examples:
      hasse study transfer senteval --model data/mine-model
      hasse study transfer senteval --model data/cap2img \\
          --model data/language --task MR
    """
    from hasse.studies.transfer.evaluation import evaluate
    from hasse.studies.transfer.sentence_encoder import SentenceEncoder
    from hasse.studies.transfer.tasks import read_tasks
    from hasse.studies.transfer.words import read_word_pairs, similarity

    if not model and vectors is None:
        raise CommandError("name a model with --model, or word vectors with --vectors")
    wanted = {name.upper() for name in task or ()}
    tasks = [one for one in read_tasks(folder) if not wanted or one.name.upper() in wanted]
    lists = [one for one in read_word_pairs(folder) if not wanted or one.name.upper() in wanted]
    if not tasks and not lists:
        raise CommandError(
            f"{folder} has no files of {', '.join(sorted(wanted)) or 'these tasks'}: name the "
            f"folder that holds them, such as SentEval's data/downstream"
        )
    encoder = SentenceEncoder.of(model or [], vectors, device)
    results: list[Result] = []
    with progress("measuring") as report:
        for at, one in enumerate(tasks):
            report(at, len(tasks), one.name)
            results.append(evaluate(one, encoder.encode, most=most, seed=seed))
    similarities = [similarity(one, encoder.encode_words, encoder.knows) for one in lists]
    if as_json:
        typer.echo(
            json.dumps(
                {
                    "models": encoder.names,
                    "tasks": [asdict(one) for one in results],
                    "words": [asdict(one) for one in similarities],
                },
                indent=2,
            )
        )
        return
    _show(encoder.names, results, similarities)


def _show(names: list[str], results: list[Result], similarities: list[Similarity]) -> None:
    if results:
        print_table(
            ("task", "", "value", "95 %", "F1", "examples", "note"),
            [
                (
                    one.task,
                    one.metric,
                    f"{one.value:.1f}",
                    f"{one.low:.1f}…{one.high:.1f}",
                    "" if one.f1 is None else f"{one.f1:.1f}",
                    f"{one.examples:,}",
                    one.note,
                )
                for one in results
            ],
        )
    if similarities:
        print_table(
            ("words", "Spearman", "95 %", "pairs", "of"),
            [
                (
                    one.name,
                    "" if one.value is None else f"{one.value / 100:.3f}",
                    ""
                    if one.low is None or one.high is None
                    else f"{one.low / 100:.3f}…{one.high / 100:.3f}",
                    f"{one.known:,}",
                    f"{one.pairs:,}",
                )
                for one in similarities
            ],
        )
    typer.echo(f"embeddings of {' and '.join(names)}", err=True)
