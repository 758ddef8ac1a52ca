"""Classes are named by their synset and all above it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hasse.studies.photographs.classes import (
    imagenet_classes,
    imagenet_synsets,
    read_classes,
    write_classes,
)
from hasse.studies.wordnet.lexicon import Lexicon
from hasse.studies.wordnet.synsets import AbstractionError
from tests.wordnet import write_wordnet


@pytest.fixture
def lexicon(tmp_path: Path) -> Lexicon:
    return Lexicon.read(write_wordnet(tmp_path / "wordnet"))


def test_imagenet_classes_name_what_a_class_is_a_kind_of(lexicon: Lexicon) -> None:
    (dog,) = imagenet_classes(lexicon, ["00000006"])
    assert dict(zip(dog.texts, dog.steps, strict=True)) == {
        **{"a dog": 0, "dog": 0, "a domestic dog": 0, "domestic dog": 0},
        **{"an animal": 1, "animal": 1, "a beast": 1, "beast": 1},
    }


def test_imagenet_classes_refuse_a_synset_of_another_wordnet(lexicon: Lexicon) -> None:
    with pytest.raises(AbstractionError, match="no noun 12345678"):
        imagenet_classes(lexicon, ["12345678"])


def test_classes_are_read_as_they_were_written(lexicon: Lexicon, tmp_path: Path) -> None:
    classes = imagenet_classes(lexicon, ["00000003", "00000006"])
    write_classes(tmp_path / "classes.jsonl", classes)
    assert read_classes(tmp_path / "classes.jsonl") == classes
    (tmp_path / "other.jsonl").write_text('{"texts": ["a dog"]}\n')
    with pytest.raises(AbstractionError, match="does not hold classes"):
        read_classes(tmp_path / "other.jsonl")


def test_imagenet_synsets_are_those_of_all_classifiers() -> None:
    synsets = imagenet_synsets()
    assert (len(set(synsets)), synsets[0], synsets[-1]) == (1000, "01440764", "15075141")
