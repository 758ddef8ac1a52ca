"""The paper's Table 1: which withheld pairs of WordNet's hypernymy are called right?

    python -m hasse.studies.tables.hypernyms /usr/share/wordnet

Every row is trained on the same pairs and measured on the same 4,000 true and 4,000 false ones,
with the threshold of the validation pairs, under both protocols of `studies.hypernyms.task`.
The intervals are 95 % bootstrap intervals over pairs.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from pathlib import Path
from typing import Any, get_args

import torch

from hasse.models.training.run import Progress
from hasse.studies.hypernyms.embedding import COMPARISONS
from hasse.studies.hypernyms.evaluation import HypernymAccuracy, evaluate, evaluate_closure
from hasse.studies.hypernyms.task import HELD_OUT, Protocol, make_task
from hasse.studies.hypernyms.taxonomy import read_wordnet
from hasse.studies.hypernyms.training import HypernymRun, preset
from hasse.studies.threshold import Threshold

PUBLISHED = {"transitive closure": 88.2, "symmetric": 84.2, "bilinear": 86.3, "order": 90.6}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("wordnet", type=Path, help="the folder of WordNet's database files")
    parser.add_argument("--protocol", choices=get_args(Protocol), help="only this one")
    parser.add_argument("--comparison", choices=COMPARISONS, help="only this one")
    parser.add_argument("--epochs", type=int, help="passes, instead of each preset's")
    parser.add_argument("--held-out", type=int, default=HELD_OUT, help="pairs withheld")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print JSON instead")
    options = parser.parse_args()

    taxonomy = read_wordnet(options.wordnet)
    report: dict[str, dict[str, Any]] = {}
    for protocol in [options.protocol] if options.protocol else get_args(Protocol):
        task = make_task(taxonomy, protocol, options.seed, options.held_out)
        rows: dict[str, dict[str, Any]] = {"transitive closure": _row(evaluate_closure(task), 0)}
        for comparison in [options.comparison] if options.comparison else reversed(COMPARISONS):
            config = preset(comparison, epochs=options.epochs, seed=options.seed)
            started = time.monotonic()

            def tell(now: Progress[Threshold], of: str = f"{protocol}, {comparison}") -> None:
                if now.measured is not None:
                    print(
                        f"{of}: epoch {now.epoch + 1}, {100 * now.measured.accuracy:.2f} % right "
                        f"in validation",
                        file=sys.stderr,
                        flush=True,
                    )

            model, threshold = HypernymRun(config, task).train(tell)
            seconds = time.monotonic() - started
            rows[comparison] = _row(evaluate(model, threshold.value, task), seconds)
        report[protocol] = {"oracle": 100 * task.oracle, "rows": rows}
    if options.json:
        json.dump(report, sys.stdout, indent=2)
        return
    for protocol, found in report.items():
        print(f"\nprotocol {protocol} (one who knows the hierarchy: {found['oracle']:.2f})")
        print(f"{'':<20}{'accuracy':>20}{'of true':>10}{'of false':>10}{'published':>11}{'s':>7}")
        for name, row in found["rows"].items():
            half = (row["high"] - row["low"]) / 2
            published = f"{PUBLISHED[name]:.1f}" if protocol == "paper" else ""
            print(
                f"{name:<20}{row['accuracy']:>12.2f} ± {half:<5.2f}{row['of_true']:>10.2f}"
                f"{row['of_false']:>10.2f}{published:>11}{row['seconds']:>7.0f}"
            )
    print(
        f"\n{len(taxonomy):,} concepts; percent; torch {torch.__version__}, "
        f"{torch.get_num_threads()} threads, {platform.machine()}"
    )


def _row(found: HypernymAccuracy, seconds: float) -> dict[str, Any]:
    return found.to_json() | {"seconds": seconds}


if __name__ == "__main__":
    main()
