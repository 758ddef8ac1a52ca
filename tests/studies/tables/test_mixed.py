"""The table of collections with texts of all lengths, on a handful of pictures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hasse.lab.checkpoints.learned_model import load
from hasse.models.datasets import Dataset, save
from hasse.service.writing.image_source import ImageSource
from hasse.studies.tables import mixed
from hasse.studies.wordnet.lexicon import Lexicon
from tests.studies.tables.test_photographs import images
from tests.tiny import tiny_checkpoint
from tests.wordnet import write_wordnet


def test_texts_of_all_lengths_are_right_where_pictures_say_them(tmp_path: Path) -> None:
    lexicon = Lexicon.read(write_wordnet(tmp_path / "wordnet"))
    data = Dataset("five", images(tmp_path))
    captions, short = mixed.captions_of(data), mixed.phrases_of(data, lexicon)
    assert (captions.right == np.eye(5, dtype=bool)).all()
    rows = {
        text: set(np.flatnonzero(row)) for text, row in zip(short.texts, short.right.T, strict=True)
    }
    assert rows["blue bird"] == {0, 1}
    assert rows["dog"] == {2, 4}
    both = captions.beside(short)
    assert both.texts == [*captions.texts, *short.texts]
    assert both.right[:, :5].sum() == both.right.sum()


def test_table_counts_first_captions_by_violation_and_as_served(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = save(Dataset("five", images(tmp_path)), tmp_path / "data").parent
    model, wordnet = tiny_checkpoint(tmp_path / "model"), write_wordnet(tmp_path / "wordnet")
    options = [str(data), "--model", str(model), "--wordnet", str(wordnet)]
    mixed.main(options)
    _, _, *rows = capsys.readouterr().out.splitlines()
    assert [row.split(" | ")[0] for row in rows] == ["| five"] * 3
    assert " | 5 captions: own caption first | " in rows[1]
    dataset, lexicon = Dataset("five", images(tmp_path)), Lexicon.read(wordnet)
    found = mixed.table(load(model), dataset, ImageSource(), lexicon, 250)
    for row, (name, flags) in zip(rows, found.items(), strict=True):
        assert name in row
        assert all(f" {100 * each.mean():.1f} % (" in row for each in flags)
