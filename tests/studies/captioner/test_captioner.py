"""From captions to a captioner, and from a picture to captions."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from hasse.models.checkpoints import checkpoint
from hasse.models.checkpoints.checkpoint import Checkpoint
from hasse.models.checkpoints.model_folder import CheckpointError
from hasse.studies.captioner import checkpoint as captioners
from hasse.studies.captioner.captioner import Candidates
from hasse.studies.captioner.ranking import LIKELY, CandidateScores, rank
from hasse.studies.captioner.writing import Writer, with_apostrophes
from tests.studies.captioner.tiny_captioner import TEXTS
from tests.tiny import DIMENSION, tiny_checkpoint


def picture(seed: int = 0) -> NDArray[np.float32]:
    point = np.abs(np.random.default_rng(seed).normal(size=DIMENSION)).astype(np.float32)
    unit: NDArray[np.float32] = point / np.linalg.norm(point)
    return unit


def test_drawn_texts_have_structures_of_training_captions_and_come_again(writer: Writer) -> None:
    drawn = writer.draw(picture(), 30)
    assert drawn.texts == writer.draw(picture(), 30).texts
    assert len(set(drawn.texts)) == len(drawn.texts) <= 30
    assert {len(text.split()) for text in drawn.texts} <= {len(text.split()) for text in TEXTS}
    assert drawn.in_training.tolist() == [text in TEXTS for text in drawn.texts]
    assert (drawn.evidence <= 0).all()


def test_loaded_captioner_writes_what_the_saved_one_wrote(
    encoder: Checkpoint, writer: Writer, folder: Path
) -> None:
    loaded = Writer(encoder, captioners.load(folder, encoder))
    first, second = (one.describe(picture(3)) for one in (writer, loaded))
    assert [one.text for one in first] == [one.text for one in second]
    assert [one.violation for one in first] == pytest.approx([one.violation for one in second])
    assert all(0 <= (one.probability or 0) <= 1 for one in second)


def test_captioner_of_another_encoder_is_refused(
    writer: Writer, folder: Path, tmp_path: Path
) -> None:
    other = checkpoint.load(tiny_checkpoint(tmp_path / "other", seed=1))
    with pytest.raises(CheckpointError, match=f"{re.escape(str(folder))} writes captions for"):
        captioners.load(folder, other)
    with pytest.raises(CheckpointError, match="model of retrieval, not of captioning"):
        captioners.load(other.folder, other)


def candidates(*texts: str, acts: tuple[int, ...]) -> Candidates:
    number = len(texts)
    return Candidates(
        list(texts),
        [text.split()[-1] for text in texts],
        np.array(acts, dtype=np.bool_),
        np.zeros((number, 2)),
        np.zeros((number, 2)),
        np.zeros(number, dtype=np.bool_),
    )


def test_order_ranks_likely_actions_before_likely_texts_before_unlikely_ones() -> None:
    drawn = candidates("a dog", "a dog runs", "a cat runs", "a red dog", acts=(0, 1, 1, 0))
    probability = np.array([0.99, LIKELY, 0.5, 0.98])
    shares = np.array([0.5, 0.1, 0.1, 0.01])
    alike = np.zeros(4)
    likely, similar = probability >= LIKELY, np.array([0.4, 0.3, 0.2, 0.1])
    judged = CandidateScores(alike, probability, shares, likely, alike, None, similar)
    texts = [one.text for one in rank(judged, drawn)]
    assert texts == ["a dog runs", "a red dog", "a dog", "a cat runs"]
    unknown = replace(judged, probability=None)  # ranked as in the paper
    assert rank(unknown, drawn)[0].text == "a dog"


def test_text_with_the_content_words_of_a_better_one_is_left_out() -> None:
    drawn = candidates("a dog in the park", "the dog in a park", acts=(0, 0))
    alike = np.zeros(2)
    judged = CandidateScores(alike, np.array([0.9, 0.8]), np.ones(2), alike > 0, alike, None, alike)
    assert [one.text for one in rank(judged, drawn)] == ["a dog in the park"]


def test_text_with_the_rarer_subject_comes_first() -> None:
    drawn = candidates("in the park a person", "a girl", acts=(0, 0))
    zero, shares, rarity = np.zeros(2), np.array([0.3, 0.4]), np.array([0.1, 1.5])
    judged = CandidateScores(zero, np.full(2, 0.95), shares, zero == 0, rarity, None, zero)
    assert [one.text for one in rank(judged, drawn)] == ["a girl", "in the park a person"]


def test_subject_is_the_first_noun_that_no_preposition_leads_to(writer: Writer) -> None:
    drawn = writer.draw(picture(), 60)
    found = dict(zip(drawn.texts, drawn.subjects, strict=True))
    assert set(drawn.subjects) <= {"", *writer.captioner.captioner.vocabulary.words}
    for text, subject in found.items():
        assert subject in (*text.split(), "")


def test_words_of_training_captions_are_written_with_their_apostrophes() -> None:
    assert with_apostrophes("a dog s tail and its owner s") == "a dog's tail and its owner's"
    assert with_apostrophes("a man in a t shirt sits") == "a man in a t shirt sits"
