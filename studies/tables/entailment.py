"""Which sentence may be inferred from which: the paper's Table 3, and captions alone.

    python -m hasse.studies.tables.entailment SICK.txt --set dimension=256 --start MODEL
    python -m hasse.studies.tables.entailment snli_1.0

Trains the order and its symmetric control from scratch on a labelled corpus, and measures them
beside the majority class; every threshold is that of the validation part. With --start, a model
that learned from captions of pictures alone is measured too, once as it is (only its threshold
is learned) and once as a starting point. Intervals are 95 % bootstrap intervals over pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hasse.lab.checkpoints import learned_model
from hasse.lab.checkpoints.learned_model import order_embedding_of
from hasse.models.checkpoints import checkpoint
from hasse.studies.entailment.corpus import Corpus, read
from hasse.studies.entailment.training import (
    EntailmentRun,
    EntailmentTraining,
    evaluate,
    evaluate_majority,
    initial,
    start_from,
)
from hasse.studies.labelled_pairs import Accuracy, print_accuracies
from hasse.studies.options import with_options
from hasse.studies.tables.report import machine, parser_of, report_of


def rows(corpus: Corpus, config: EntailmentTraining, start: Path | None) -> dict[str, Accuracy]:
    """Return the rows of the table."""
    found = {"majority class": evaluate_majority(corpus.train, corpus.test)}

    def add(name: str, config: EntailmentTraining, begun: checkpoint.Checkpoint | None) -> None:
        run = EntailmentRun(config, initial(config, corpus, begun), corpus)
        model, threshold = run.train(report_of(name))
        found[name] = evaluate(model, threshold.value, corpus.test)

    add("symmetric", replace(config, model=replace(config.model, comparison="symmetric")), None)
    add("order, unit length", replace(config, model=replace(config.model, length="unit")), None)
    add("order", config, None)
    if start is not None:
        begun = learned_model.load(start)
        shaped = start_from(begun, config)
        own = replace(shaped.model, length=order_embedding_of(begun).config.length)
        add(f"order, {begun.name} as it is", replace(shaped, epochs=0, model=own), begun)
        add(f"order, started from {begun.name}", shaped, begun)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = parser_of(__doc__)
    parser.add_argument("corpus", type=Path, help="SNLI's folder, or SICK.txt")
    parser.add_argument("--start", type=Path, help="a checkpoint that learned from captions")
    parser.add_argument("--set", dest="options", nargs="*", metavar="NAME=VALUE")
    options = parser.parse_args(arguments)
    corpus = read(options.corpus)
    config = with_options(EntailmentTraining(), ["word_range=1", *(options.options or ())])
    print_accuracies(rows(corpus, config, options.start))
    print(
        f"\n{corpus.name}: {len(corpus.train):,} pairs to learn from, {len(corpus.test):,} to be "
        f"measured on{'; ' + corpus.note if corpus.note else ''}; dimension "
        f"{config.model.dimension}, {machine()}"
    )


if __name__ == "__main__":
    main()
