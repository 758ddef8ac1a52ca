"""Captions put together from phrases that a picture surely shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hasse.models.calibration import Calibration, Calibrations
from hasse.models.captioning.phrases import (
    Phrases,
    PhraseWriter,
    has_phrases,
    load,
    save,
)
from hasse.models.checkpoints.checkpoint import Checkpoint
from hasse.models.checkpoints.model_folder import CheckpointError, ModelKind
from hasse.models.embedding_model import Points

PHRASES = Phrases(("a child",), ("a sheep", "a cup"), ("an animal",), ("running",), ("in a field",))
WORDS = ("child", "sheep", "cup", "animal", "running", "field")


@dataclass(frozen=True)
class Config:
    score: str = "order"


class Words:
    """A text demands a coordinate for each of its words that it knows."""

    config = Config()

    def encode_captions(self, texts: Sequence[str], batch_size: int = 256) -> Points:
        return np.array([[word in text for word in WORDS] for text in texts], np.float32)


def checkpoint(folder: Path, *, calibrated: bool = True, fingerprint: str = "f") -> Checkpoint:
    known = Calibration((0.0, 1.0), (1.0, 0.0), 0.5, 4, 2) if calibrated else None
    model: Any = Words()
    return Checkpoint(model, "words", fingerprint, Calibrations(known), {}, folder)


def showing(**shown: float) -> Any:
    return np.array([shown.get(word, 0.0) for word in WORDS], np.float32)


def writer(folder: Path, limit: float = 1.0) -> PhraseWriter:
    model = checkpoint(folder)
    save(PHRASES, np.full(len(PHRASES.limited), limit, np.float32), model)
    return PhraseWriter(model)


def texts(writer: PhraseWriter, **shown: float) -> list[str]:
    return [one.text for one in writer.describe(showing(**shown))]


def test_what_is_sure_is_put_together_and_what_says_most_comes_first(tmp_path: Path) -> None:
    found = texts(writer(tmp_path), sheep=1, animal=1, field=1)
    assert found == ["a sheep in a field", "a sheep", "a field"]


def test_somebody_does_what_is_done(tmp_path: Path) -> None:
    found = texts(writer(tmp_path), child=1, running=1)
    assert found == ["a child running", "a person running", "a child"]


def test_nobody_does_what_a_thing_is_sure_of(tmp_path: Path) -> None:
    assert texts(writer(tmp_path), sheep=1, running=1) == ["a sheep"]


def test_a_general_word_stands_where_no_thing_is_sure(tmp_path: Path) -> None:
    assert texts(writer(tmp_path), sheep=0.6, animal=0.9) == ["an animal"]


def test_a_text_that_is_not_true_as_a_whole_is_left_out(tmp_path: Path) -> None:
    # Each part violates by 0.3, and both together by more than half.
    found = texts(writer(tmp_path), child=0.45, running=0.45)
    assert found == ["a person running", "a child"]


def test_nothing_is_said_of_a_picture_of_which_nothing_is_sure(tmp_path: Path) -> None:
    assert texts(writer(tmp_path), sheep=0.5, field=0.2) == []


def test_phrase_violated_beyond_its_limit_is_left_out(tmp_path: Path) -> None:
    limited = writer(tmp_path, limit=0.01)
    assert texts(limited, field=0.8) == []
    assert texts(limited, field=1) == ["a field"]


def test_model_has_phrases_once_they_are_in_its_folder(tmp_path: Path) -> None:
    model = checkpoint(tmp_path)
    assert not has_phrases(model)
    writer(tmp_path)
    assert has_phrases(model)


def test_load_of_a_captioner_of_another_kind_is_refused(tmp_path: Path) -> None:
    other = ModelKind("captioning", "hasse study captioner train", 1, ())
    other.save(tmp_path / "captioner", {}, {"weights": torch.zeros(1)}, {})
    model = checkpoint(tmp_path)
    assert not has_phrases(model)
    with pytest.raises(CheckpointError, match="a model of captioning, not of phrases"):
        load(model)


def test_load_of_phrases_for_another_model_is_refused(tmp_path: Path) -> None:
    writer(tmp_path)
    with pytest.raises(CheckpointError, match="for another model"):
        load(checkpoint(tmp_path, fingerprint="other"))


def test_writer_of_a_model_without_calibration_is_refused(tmp_path: Path) -> None:
    writer(tmp_path)
    with pytest.raises(CheckpointError, match="calibrate it first"):
        PhraseWriter(checkpoint(tmp_path, calibrated=False))
