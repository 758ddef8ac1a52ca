"""`hasse study entailment`: learn which sentence may be inferred from which, and measure it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hasse.lab.commands.long_running import stoppable
from hasse.lab.commands.training_report import training_report
from hasse.service.cli.terminal.errors import resumable
from hasse.service.cli.terminal.help_text import Commands
from hasse.service.cli.terminal.options import Json
from hasse.service.cli.terminal.progress import progress
from hasse.studies.options import Options, with_options

if TYPE_CHECKING:
    from hasse.studies.entailment.corpus import Corpus
    from hasse.studies.labelled_pairs import Threshold

entailment = Commands(help="Learn from labelled pairs which sentence follows from which.")

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
Start = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Start from the caption encoder of this checkpoint, from 'hasse lab train', or of a "
        "built-in one, by its name: captions alone teach much of the order. The shape of the "
        "encoder is then its own.",
    ),
]


@entailment.add
def train(
    *, corpus: CorpusPath, out: ModelFolder, start: Start = None, options: Options = None
) -> None:
    """Learn an order of sentences from pairs that are labelled as following or not.

    Neutral and contradicting pairs are alike: they do not follow. The threshold is chosen on
    the validation part. Interrupted, it leaves the best epoch so far, or the model as it began if
    none was better; it does not go on from there.

    \b
    Examples:
      hasse study entailment train snli_1.0 --out data/snli-model
      hasse study entailment train SICK.txt --set dimension=256 \\
          --out data/sick-model
      hasse study entailment train SICK.txt --start data/flickr8k-model \\
          --out data/sick-model
    """
    from hasse.lab.training.run import TrainingStopped
    from hasse.studies.entailment.corpus import read
    from hasse.studies.entailment.pipeline import SavedRun
    from hasse.studies.entailment.training import EntailmentTraining
    from hasse.studies.new_model import new_model

    pairs = read(corpus)
    _describe(pairs)
    run = SavedRun(with_options(EntailmentTraining(), options), pairs, out, start)
    with (
        new_model(out),
        resumable(run.left),
        progress("training") as bar,
        stoppable(run.left, TrainingStopped) as stop,
    ):
        _, threshold = run.train(training_report(bar, run.epochs, _summary), stop)
    unchanged = ", as it began: no epoch was better" if run.epochs and run.saved == 1 else ""
    typer.echo(f"{out}: {threshold.summary}{unchanged}")
    typer.echo(f"next: hasse study entailment evaluate {corpus} --model {out}", err=True)


@entailment.add
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
    from hasse.studies.entailment import checkpoint, training
    from hasse.studies.entailment.corpus import read
    from hasse.studies.labelled_pairs import print_accuracies

    pairs = read(corpus)
    loaded = checkpoint.load(model)
    comparison = loaded.model.config.comparison
    learned = training.evaluate(loaded.model, loaded.threshold, pairs.test)
    majority = training.evaluate_majority(pairs.train, pairs.test)
    if as_json:
        result = {
            "corpus": pairs.name,
            "comparison": comparison,
            "threshold": loaded.threshold,
            "model": learned.to_json(),
            "majority": majority.to_json(),
        }
        typer.echo(json.dumps(result, indent=2))
        return
    _describe(pairs)
    print_accuracies({"majority class": majority, comparison: learned})
    typer.echo(f"percent; {learned.pairs:,} test pairs, of which {learned.true:,} follow")


def _describe(corpus: Corpus) -> None:
    parts = (len(corpus.train), len(corpus.validation), len(corpus.test))
    dropped = f"; {corpus.dropped:,} without a label are left out" if corpus.dropped else ""
    note = f"; {corpus.note}" if corpus.note else ""
    typer.echo(
        f"{corpus.name}: {parts[0]:,} pairs to learn from, {parts[1]:,} for validation, "
        f"{parts[2]:,} to be measured on{dropped}{note}",
        err=True,
    )


def _summary(threshold: Threshold) -> str:
    return threshold.summary
