"""`hasse study entailment`: learn which sentence may be inferred from which, and measure it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hasse.service.cli.terminal.errors import resumable
from hasse.service.cli.terminal.help_text import Commands
from hasse.service.cli.terminal.long_running import consistent_options, stoppable, training_report
from hasse.service.cli.terminal.options import Json
from hasse.service.cli.terminal.progress import progress
from hasse.service.cli.terminal.table import print_table

if TYPE_CHECKING:
    from hasse.studies.entailment import Corpus
    from hasse.studies.threshold import Threshold

entailment = Commands(
    no_args_is_help=True, help="Learn from labelled pairs which sentence follows from which."
)

CorpusPath = Annotated[
    Path,
    typer.Argument(
        metavar="CORPUS",
        help="SNLI's folder (of *_train.jsonl, *_dev.jsonl and *_test.jsonl), or SICK.txt.",
    ),
]


ModelFolder = Annotated[
    Path, typer.Option("--out", "-o", metavar="DIR", help="Where the checkpoint goes.")
]
Comparison = Annotated[
    Literal["order", "symmetric"],
    typer.Option(help="How sentences are compared: order, or the paper's control."),
]
Start = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Start from the captions' encoder of this checkpoint, from 'hasse lab train', or of a "
        "built-in one, by its name: captions alone teach much of the order.",
    ),
]
Epochs = Annotated[
    int,
    typer.Option(
        min=0,
        help="Passes; the best in validation is kept. 0 with --start: only the threshold "
        "is learned.",
    ),
]
Dimension = Annotated[
    int, typer.Option(min=1, help="Coordinates of a point; with --start they are its own.")
]
WordDimension = Annotated[
    int, typer.Option(min=1, help="Of a word's vector; with --start it is its own.")
]
WordRange = Annotated[float, typer.Option(help="Word vectors start between minus and plus this.")]
Batch = Annotated[int, typer.Option(min=1, help="Pairs at a time.")]
LearningRate = Annotated[float, typer.Option(help="Adam's.")]
Margin = Annotated[
    float, typer.Option(help="How far a pair that does not follow is kept from following.")
]
Pooling = Annotated[
    Literal["last", "max"],
    typer.Option(
        help="What is kept of a sentence: the last state, or the largest of all in each "
        "coordinate; with --start it is its own."
    ),
]
Length = Annotated[
    Literal["unit", "learned", "free"],
    typer.Option(
        help="Of points. Unit is the paper's, and right with --epochs 0 for a start that has "
        "it; a start's learned length stays."
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="The same seed trains the same model.")]


def train(
    *,
    corpus: CorpusPath,
    out: ModelFolder,
    comparison: Comparison = "order",
    start: Start = None,
    epochs: Epochs = 10,
    dimension: Dimension = 1024,
    word_dimension: WordDimension = 300,
    word_range: WordRange = 0.1,
    batch_size: Batch = 128,
    learning_rate: LearningRate = 1e-3,
    margin: Margin = 1.0,
    pooling: Pooling = "last",
    length: Length = "free",
    seed: Seed = 0,
) -> None:
    """Learn an order of sentences from pairs that are labelled as following or not.

    Neutral and contradicting pairs are alike: they do not follow. The threshold is chosen on
    the validation part. Interrupted, it leaves the best epoch so far, or the model as it began if
    none was better; it does not go on from there.

    \b
    [bold]Examples[/bold]
      hasse study entailment train snli_1.0 --out data/snli-model
      hasse study entailment train SICK.txt --dimension 256 --out data/sick-model
      hasse study entailment train SICK.txt --start data/flickr8k-model \\
          --out data/sick-model
    """
    from hasse.models.checkpoints.model_folder import new_model
    from hasse.models.training.run import TrainingStopped
    from hasse.studies.entailment import read
    from hasse.studies.entailment.embedding import SentenceConfig
    from hasse.studies.entailment.pipeline import SavedTraining
    from hasse.studies.entailment.training import EntailmentTraining

    pairs = read(corpus)
    _describe(pairs)
    with consistent_options():
        shape = SentenceConfig(
            comparison, dimension, word_dimension, word_range, pooling=pooling, length=length
        )
        config = EntailmentTraining(shape, epochs, batch_size, learning_rate, margin, seed=seed)
    training = SavedTraining(config, pairs, out, start)
    with (
        new_model(out),
        resumable(training.left),
        progress("training") as bar,
        stoppable(training.left, TrainingStopped) as stop,
    ):
        _, threshold = training.run.train(training_report(bar, epochs, _described), stop)
    unchanged = ", as it began: no epoch was better" if epochs and training.saved == 1 else ""
    typer.echo(f"{out}: {100 * threshold.accuracy:.2f} % right in validation{unchanged}")
    typer.echo(f"next: hasse study entailment evaluate {corpus} --model {out}", err=True)


def evaluate(
    *,
    corpus: CorpusPath,
    model: Annotated[
        Path,
        typer.Option("--model", "-m", metavar="DIR", help="From 'hasse study entailment train'."),
    ],
    as_json: Json = False,
) -> None:
    """Measure a model on the test part, beside always answering with the majority class."""
    from hasse.studies.entailment import checkpoint, read
    from hasse.studies.entailment.evaluation import evaluate as measure
    from hasse.studies.entailment.evaluation import evaluate_majority

    pairs = read(corpus)
    loaded = checkpoint.load(model)
    learned = measure(loaded.model, loaded.threshold, pairs.test)
    majority = evaluate_majority(pairs.train, pairs.test)
    if as_json:
        result = {
            "corpus": pairs.name,
            "comparison": loaded.model.config.comparison,
            "threshold": loaded.threshold,
            "model": learned.to_json(),
            "majority": majority.to_json(),
        }
        typer.echo(json.dumps(result, indent=2))
        return
    _describe(pairs)
    print_table(
        ("", "accuracy", "95 % interval", "average precision"),
        [
            (
                name,
                f"{found.accuracy:.1f}",
                f"{found.low:.1f} to {found.high:.1f}",
                "" if found.average_precision is None else f"{found.average_precision:.1f}",
            )
            for name, found in (
                ("majority class", majority),
                (loaded.model.config.comparison, learned),
            )
        ],
    )
    typer.echo(f"percent; {learned.pairs:,} test pairs, of which {learned.entailed:,} follow")


def _describe(corpus: Corpus) -> None:
    parts = (len(corpus.train), len(corpus.validation), len(corpus.test))
    dropped = f"; {corpus.dropped:,} without a label are left out" if corpus.dropped else ""
    note = f"; {corpus.note}" if corpus.note else ""
    typer.echo(
        f"{corpus.name}: {parts[0]:,} pairs to learn from, {parts[1]:,} for validation, "
        f"{parts[2]:,} to be measured on{dropped}{note}",
        err=True,
    )


def _described(threshold: Threshold) -> str:
    return f"{100 * threshold.accuracy:.2f} % right in validation"


for command in (train, evaluate):
    entailment.add(command)
