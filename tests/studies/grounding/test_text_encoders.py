"""Any unit can read captions: it learns, is resumed, saved and read back."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from hasse.lab.checkpoints import learned_model
from hasse.lab.training.lesson import Measurement
from hasse.lab.training.run import Progress
from hasse.studies.grounding.sentence_model import SentenceModelConfig
from tests.lab.training.colours import CONFIG, run


@pytest.mark.parametrize("kind", ["lstm", "bilstm", "sum"])
def test_text_encoder_learns_by_gradient_descent_and_encodes_as_saved(
    tmp_path: Path, kind: str
) -> None:
    losses: list[float] = []

    def report(progress: Progress[Measurement]) -> None:
        if progress.measurement is not None:
            losses.append(progress.loss)

    config = replace(
        CONFIG,
        model=SentenceModelConfig(
            **asdict(CONFIG.model) | {"text_encoder": kind, "score": "cosine"}
        ),
        optimizer="sgd",
        learning_rate=1.0,
        schedule="exponential",
        margin=0.2,
        epochs=12,
        patience=12,
    )
    run(tmp_path, config, report=report)
    assert losses[-1] < 0.8 * losses[0]
    read = learned_model.load(tmp_path).model
    texts = ["red", "a blue picture", "green"]
    found = read.encode_captions(texts)
    one_by_one = np.concatenate([read.encode_captions([text]) for text in texts])
    np.testing.assert_allclose(found, one_by_one, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)
