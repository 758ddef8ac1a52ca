"""A training of entailment that saves its best model so far."""

from __future__ import annotations

import time
from pathlib import Path

from hasse.lab.checkpoints import learned_model
from hasse.models.checkpoints.named_models import find
from hasse.studies.entailment import checkpoint
from hasse.studies.entailment.corpus import Corpus
from hasse.studies.entailment.embedding import SentenceEmbedding
from hasse.studies.entailment.training import (
    EntailmentRun,
    EntailmentTraining,
    initial,
    start_from,
)
from hasse.studies.labelled_pairs import Threshold


class SavedRun(EntailmentRun):
    """A training that writes its best model so far to a folder.

    Attributes:
        saved: how often the model was saved: as it began, and after each better epoch.
    """

    def __init__(
        self, config: EntailmentTraining, corpus: Corpus, out: Path, start: Path | None
    ) -> None:
        """Prepare a training, from the caption encoder of a checkpoint if one is named."""
        begun = None if start is None else learned_model.load(find(start))
        config = config if begun is None else start_from(begun, config)
        super().__init__(config, initial(config, corpus, begun), corpus)
        self.out, self.saved = out, 0
        self.start = None if begun is None else begun.name
        self.save_best = self._write
        self._started = time.monotonic()

    def _write(self, model: SentenceEmbedding, threshold: Threshold) -> None:
        metrics = {
            "corpus": self.corpus.name,
            "pairs": len(self.corpus.train),
            "start": self.start,
            "validation_accuracy": 100 * threshold.accuracy,
            "seconds": round(time.monotonic() - self._started, 1),
        }
        checkpoint.save(
            checkpoint.EntailmentCheckpoint(model, threshold.value, self.config, metrics, self.out)
        )
        self.saved += 1

    def left(self) -> str:
        """Return a sentence about the content of the folder."""
        if not self.saved:
            return "nothing is kept"
        holds = "the best epoch so far" if self.saved > 1 else "the model as it began"
        return f"{self.out} holds {holds}; delete it to start again"
