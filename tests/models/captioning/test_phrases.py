"""Captions put together from phrases that a picture surely shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hasse.models.calibration import Calibration, Calibrations
from hasse.models.captioning.phrases import (
    Phrases,
    PhraseWriter,
    limits_of,
    load,
    save,
)
from hasse.models.captioning.writing import load_writer
from hasse.models.checkpoints.checkpoint import Checkpoint
from hasse.models.checkpoints.model_folder import CheckpointError
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


def writer(folder: Path) -> PhraseWriter:
    model = checkpoint(folder)
    nothing = np.zeros((4, len(WORDS)), np.float32)
    save(folder, PHRASES, limits_of(PHRASES, nothing, model), model)
    return PhraseWriter(model, load(folder, model))


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


def test_what_many_pictures_are_as_near_to_is_not_said(tmp_path: Path) -> None:
    model = checkpoint(tmp_path)
    others = np.stack([showing(field=0.9), showing()])
    save(tmp_path, PHRASES, limits_of(PHRASES, others, model), model)
    found = PhraseWriter(model, load(tmp_path, model))
    assert texts(found, field=0.8) == []
    assert texts(found, field=1) == ["a field"]


def test_phrases_in_the_folder_of_a_captioner_write_the_captions(tmp_path: Path) -> None:
    writer(tmp_path)
    assert isinstance(load_writer(checkpoint(tmp_path), tmp_path), PhraseWriter)


def test_phrases_for_another_model_or_for_one_without_probabilities_are_refused(
    tmp_path: Path,
) -> None:
    writer(tmp_path)
    with pytest.raises(CheckpointError, match="for another model"):
        load(tmp_path, checkpoint(tmp_path, fingerprint="other"))
    bare = checkpoint(tmp_path, calibrated=False)
    with pytest.raises(CheckpointError, match="calibrate it first"):
        PhraseWriter(bare, load(tmp_path, bare))
