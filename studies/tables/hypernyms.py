"""The paper's Table 1: which withheld pairs of WordNet's hypernymy are classified correctly?

    python -m hasse.studies.tables.hypernyms /usr/share/wordnet

Every row is trained on the same pairs and measured on the same 4,000 true and 4,000 false ones,
with the threshold of the validation pairs, under both protocols of `studies.hypernyms.task`.
The intervals are 95 % bootstrap intervals over pairs. The paper has 88.2 for the transitive
closure, 84.2 symmetric, 86.3 bilinear and 90.6 for the order, under its own protocol.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from hasse.studies.hypernyms.embedding import COMPARISONS
from hasse.studies.hypernyms.task import HELD_OUT, Protocol, Task, make_task
from hasse.studies.hypernyms.taxonomy import read_wordnet
from hasse.studies.hypernyms.training import PRESETS, HypernymRun, evaluate, evaluate_closure
from hasse.studies.labelled_pairs import Accuracy, print_accuracies
from hasse.studies.options import with_options
from hasse.studies.tables.report import machine, parser_of, report_of


def rows(task: Task, options: Sequence[str]) -> dict[str, Accuracy]:
    """Train each comparison on a task, with some options replaced, and measure it."""
    found = {"transitive closure": evaluate_closure(task)}
    for comparison in reversed(COMPARISONS):
        run = HypernymRun(with_options(PRESETS[comparison], options), task)
        model, threshold = run.train(report_of(f"{task.protocol}, {comparison}"))
        found[comparison] = evaluate(model, threshold.value, task)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = parser_of(__doc__)
    parser.add_argument("wordnet", type=Path, help="the folder of WordNet's database files")
    parser.add_argument("--held-out", type=int, default=HELD_OUT, help="pairs withheld")
    parser.add_argument("--set", dest="options", nargs="*", default=[], metavar="NAME=VALUE")
    options = parser.parse_args(arguments)

    taxonomy, started = read_wordnet(options.wordnet), time.monotonic()
    for protocol in get_args(Protocol):
        task = make_task(taxonomy, protocol, held_out=options.held_out)
        found = rows(task, options.options)
        print(f"\nprotocol {protocol} (full knowledge of the hierarchy: {100 * task.oracle:.2f})")
        print_accuracies(found)
    print(f"\n{len(taxonomy):,} concepts; percent; {time.monotonic() - started:.0f} s; {machine()}")


if __name__ == "__main__":
    main()
