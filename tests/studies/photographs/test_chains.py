"""Chains say what follows from a caption, from general to specific."""

from __future__ import annotations

from pathlib import Path

import pytest

from hasse.models.datasets import Caption, Image
from hasse.studies.photographs.chain_making import chain_of, derive
from hasse.studies.wordnet.lexicon import Lexicon
from hasse.studies.wordnet.synsets import AbstractionError
from tests.wordnet import write_wordnet


@pytest.fixture(scope="module")
def lexicon(tmp_path_factory: pytest.TempPathFactory) -> Lexicon:
    return Lexicon.read(write_wordnet(tmp_path_factory.mktemp("wordnet")))


@pytest.mark.parametrize(
    ("caption", "chain"),
    [
        (
            "A blue bird sits on a branch in autumn.",
            [
                "animal",
                "bird",
                "a blue bird",
                "a blue bird sits on a branch",
                "a blue bird sits on a branch in autumn",
            ],
        ),
        ("Two dogs run", ["animal", "dogs", "two dogs", "two dogs run"]),
        ("A man", ["man", "a man"]),
    ],
)
def test_chain_of_goes_from_the_hypernym_to_the_whole_caption(
    lexicon: Lexicon, caption: str, chain: list[str]
) -> None:
    assert chain_of(caption, lexicon) == chain


def test_chain_of_half_a_colour_is_not_made(lexicon: Lexicon) -> None:
    assert chain_of("A black and white dog walks.", lexicon) == []


def test_derive_names_all_that_the_captions_of_a_picture_imply(lexicon: Lexicon) -> None:
    texts = ("A dog runs.", "A blue bird sits.")
    captions = tuple(Caption(at, 7, text) for at, text in enumerate(texts))
    image = Image(7, "7.jpg", Path("7.jpg"), captions=captions)
    chains = derive([image], lexicon)
    assert [chain.texts[1] for chain in chains] == ["dog", "bird"]
    assert {"dog", "domestic dog", "bird", "animal", "beast"} <= set(chains[0].implied)


@pytest.mark.parametrize(
    ("word", "part", "base"),
    [
        ("men", "noun", "man"),
        ("dogs", "noun", "dog"),
        ("running", "verb", None),
        ("xyz", "noun", None),
    ],
)
def test_base_knows_irregular_and_regular_forms(
    lexicon: Lexicon, word: str, part: str, base: str | None
) -> None:
    assert lexicon.base(word, part) == base  # type: ignore[arg-type]


def test_read_of_a_folder_without_wordnet_says_where_it_is_had(tmp_path: Path) -> None:
    with pytest.raises(AbstractionError, match="apt-get install wordnet"):
        Lexicon.read(tmp_path)


def test_read_of_a_damaged_file_names_the_folder(tmp_path: Path) -> None:
    write_wordnet(tmp_path)
    (tmp_path / "index.adj").write_text("blue\n")
    with pytest.raises(AbstractionError, match=r"index\.noun"):
        Lexicon.read(tmp_path)
