"""Does a model tell which text follows from which?

    python -m hasse.studies.tables.verdicts --wordnet /usr/share/wordnet

Pairs of texts are made of WordNet's nouns for what the classes of a grounded model show, and of
phrases built on them; half of them follow. The nouns are those that `hasse study photographs
ground` does not calibrate verdicts on. A verdict is right where the second text follows and its
probability is at least a half, or does not follow and it is less.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hasse.lab.checkpoints.learned_model import load
from hasse.models.checkpoints.checkpoint import Checkpoint
from hasse.models.checkpoints.named_models import find
from hasse.models.grounding.part_scores import PartScores
from hasse.studies.labelled_pairs import Accuracy, print_accuracies
from hasse.studies.photographs.classes import imagenet_synsets
from hasse.studies.photographs.grounding import require_grounded
from hasse.studies.photographs.text_pairs import Nouns, TextPair, called_right
from hasse.studies.photographs.things import Things, Usage
from hasse.studies.tables.report import parser_of
from hasse.studies.wordnet.lexicon import Lexicon

PAIRS = 400


def rows(checkpoint: Checkpoint, pairs: Sequence[TextPair]) -> dict[str, Accuracy]:
    """Measure all pairs, and those of each kind."""
    known = checkpoint.calibration.caption
    if not isinstance(known, PartScores):
        sys.exit(f"{checkpoint.folder} has no verdicts on two texts: calibrate it first")
    right = called_right(require_grounded(checkpoint), pairs, known)
    true = np.array([one.follows for one in pairs])
    kinds = np.array([one.kind for one in pairs])
    found = {"all": Accuracy.of(right, true)}
    for kind in dict.fromkeys(kinds.tolist()):
        found[kind] = Accuracy.of(right[kinds == kind], true[kinds == kind])
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = parser_of(__doc__)
    parser.add_argument("--model", type=Path, default=Path("photographs"))
    parser.add_argument("--wordnet", type=Path, default=Path("/usr/share/wordnet"))
    parser.add_argument("--pairs", type=int, default=PAIRS)
    options = parser.parse_args(arguments)
    checkpoint = load(find(options.model))
    things = Things.choose(Lexicon.read(options.wordnet), Usage.of(()), imagenet_synsets())
    nouns = Nouns.of(require_grounded(checkpoint), things)
    print_accuracies(rows(checkpoint, nouns.pairs(nouns.halves()[1], options.pairs, seed=2)))


if __name__ == "__main__":
    main()
