"""Features of texts are made once, go on after a stop, and are of one encoder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hasse.lab.features.feature_store import FeaturesError
from hasse.studies.photographs.text_features import (
    FEATURES,
    TEXTS,
    TextExtractionStopped,
    TextFeatures,
    extract_texts,
)
from tests.studies.photographs.sentences import BagOfWords, features_of

MANY = [f"picture number {number}" for number in range(3000)]


def test_extract_texts_gives_each_text_its_features(tmp_path: Path) -> None:
    found = features_of(["a red dog", "a dog", "a dog"], tmp_path)
    assert set(found.texts) == {"a red dog", "a dog"}
    for text in found.texts:
        expected = BagOfWords().features([text])[0]
        assert np.allclose(found.rows[found.row_of[text]], expected, atol=2e-3)


def test_extract_texts_stopped_goes_on_where_it_was(tmp_path: Path) -> None:
    with pytest.raises(TextExtractionStopped, match="2,048 texts are done"):
        extract_texts(MANY, BagOfWords(), tmp_path / "stopped", stop=lambda: True)
    # What an interrupted block has written beyond the last commit is written again.
    with (tmp_path / "stopped" / TEXTS).open("ab") as file:
        file.write(b'"half a te')
    encoder = BagOfWords()
    again = extract_texts(MANY, encoder, tmp_path / "stopped")
    whole = features_of(MANY, tmp_path / "whole")
    assert again.texts == whole.texts
    assert np.array_equal(again.rows, whole.rows)
    assert encoder.calls < 24, "only the rest"


def test_extract_texts_refuses_features_of_another_encoder(tmp_path: Path) -> None:
    features_of(["a dog"], tmp_path)
    other = BagOfWords()
    other.name = "another"
    with pytest.raises(FeaturesError, match="made by bag-of-words and not by another"):
        extract_texts(["a cat"], other, tmp_path)


def test_open_refuses_what_is_missing_or_cut(tmp_path: Path) -> None:
    with pytest.raises(FeaturesError, match="no features of texts"):
        TextFeatures.open(tmp_path)
    features_of(["a dog"], tmp_path)
    (tmp_path / FEATURES).write_bytes(b"")
    with pytest.raises(FeaturesError, match="missing or shorter"):
        TextFeatures.open(tmp_path)


def test_rows_of_names_a_text_without_features(tmp_path: Path) -> None:
    found = features_of(["a dog"], tmp_path)
    assert found.rows_of(["a  dog"], "captions").tolist() == [0]
    with pytest.raises(FeaturesError, match="the first is 'a cat'"):
        found.rows_of(["a dog", "a cat"], "captions")
