"""`hasse study photographs`, with a transformer of random weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hasse.lab.encoders import registry
from hasse.studies.photographs.chains import read_chains
from hasse.studies.photographs.sentence_encoder import SentenceEncoder
from hasse.studies.photographs.text_features import TextFeatures
from tests.service.cli.shell import hasse
from tests.service.collection import picture
from tests.wordnet import write_wordnet

TEXTS = ("a dog runs", "a cat", "a dog and a cat")


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    folder = tmp_path / "pictures"
    folder.mkdir()
    for at, word in enumerate(("dog", "cat", "child")):
        picture(at).save(folder / f"{word}.jpg")
        (folder / f"{word}.txt").write_text(f"a {word} runs\na {word}\n")
    return folder


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from transformers import BertConfig, BertModel, BertTokenizerFast

    folder = tmp_path_factory.mktemp("sentences")
    words = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "and", "dog", "cat", "runs")
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
    )
    BertModel(config).save_pretrained(folder)
    return folder


def test_text_features_are_the_encoders_own_whatever_a_text_is_beside(
    encoder: Path, tmp_path: Path
) -> None:
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n")
    make = (
        "study",
        "photographs",
        "features",
        tmp_path / "texts.txt",
        "--out",
        tmp_path / "features",
        "--encoder",
    )
    told = hasse(*make, encoder, "--device", "cpu")
    assert told.out == f"{tmp_path / 'features'}: 3 texts\n", told.err
    assert told.err == "", "not the library's own progress"
    found = TextFeatures.open(tmp_path / "features")
    alone = SentenceEncoder(encoder)
    for text in TEXTS:
        row = found.rows[found.row_of[text]]
        assert np.allclose(row, alone.features([text])[0], atol=2e-3)


def test_text_features_downloads_an_encoder_where_that_is_asked_for(
    encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = "sentence-transformers/tiny"
    asked: list[str] = []

    def download(name: str, *_: object) -> Path:
        asked.append(name)
        return encoder

    monkeypatch.setattr(registry, "download_weights", download)
    (tmp_path / "texts.txt").write_text("a dog\n")
    make = (
        "study",
        "photographs",
        "features",
        tmp_path / "texts.txt",
        "--out",
        tmp_path / "out",
        "--encoder",
        named,
    )
    assert "name the folder of a sentence encoder, or download one" in hasse(*make).error
    other = hasse(*make[:-1], "timm/resnet18", "--download-weights")
    assert "takes --encoder sentence-transformers/NAME" in other.error
    assert asked == []
    assert hasse(*make, "--download-weights", "--device", "cpu").status == 0
    assert asked == [named]


def test_text_features_names_what_is_missing(encoder: Path, tmp_path: Path) -> None:
    make = (
        "study",
        "photographs",
        "features",
        tmp_path / "texts.txt",
        "--out",
        tmp_path / "out",
        "--encoder",
    )
    assert "there is no file" in hasse(*make, encoder).error
    (tmp_path / "texts.txt").write_text("a dog\n")
    assert "name the folder of a sentence encoder" in hasse(*make, tmp_path).error


def test_train_needs_features_and_texts(tmp_path: Path) -> None:
    train = ("study photographs train", tmp_path, "--out", tmp_path / "model")
    assert "--features" in hasse(*train, "--texts", tmp_path).err
    assert "--texts" in hasse(*train, "--features", tmp_path).err


def test_texts_collects_captions_of_others_and_names_of_classes(
    pictures: Path, tmp_path: Path
) -> None:
    out, wordnet = tmp_path / "data", write_wordnet(tmp_path / "wordnet")
    assert hasse("lab data", "import", "folder", pictures, "--out", out).status == 0
    (tmp_path / "others.txt").write_text("a zebra sleeps\n")
    (tmp_path / "classes.jsonl").write_text('{"synset": "1", "texts": ["a tench"], "steps": [0]}\n')
    options = ("--captions", tmp_path / "others.txt", "--classes", tmp_path / "classes.jsonl")
    texts = tmp_path / "texts.txt"
    to = ("--split", "", "--wordnet", wordnet, "--out", texts)
    told = hasse("study photographs", "texts", out, *options, *to)
    found = texts.read_text().splitlines()
    assert told.out == f"{texts}: {len(found)} texts\n", told.err
    assert {"a dog runs", "a zebra sleeps", "a tench", "dog"} <= set(found)


def test_classes_needs_the_wordnet_that_they_are_of(tmp_path: Path) -> None:
    wordnet = write_wordnet(tmp_path / "wordnet")
    refused = hasse(
        "study photographs", "classes", "--wordnet", wordnet, "--out", tmp_path / "classes.jsonl"
    )
    assert "WordNet has no noun 01440764: its version is not 3.0" in refused.error


def test_abstract_derives_chains_and_leaves_the_dataset_alone(
    pictures: Path, tmp_path: Path
) -> None:
    out = tmp_path / "data"
    assert hasse("lab data", "import", "folder", pictures, "--out", out).status == 0
    before = (out / "dataset.json").read_bytes()
    chains = tmp_path / "chains.jsonl"
    wordnet = write_wordnet(tmp_path / "wordnet")
    derive = ("study photographs", "abstract", out, "--split", "", "--out", chains, "--wordnet")
    told = hasse(*derive, wordnet)
    assert told.out == f"{chains}: 6 chains of 6 captions\n", told.err
    assert ("animal", "dog", "a dog runs") in [chain.texts for chain in read_chains(chains)]
    assert (out / "dataset.json").read_bytes() == before
    assert "apt-get install wordnet" in hasse(*derive, tmp_path).error


def test_ground_wants_features_of_all_named_pictures(tmp_path: Path) -> None:
    paths = ("--model", tmp_path, "--features", tmp_path, "--chains", tmp_path / "chains.jsonl")
    named = ("--named", tmp_path, "--named", tmp_path, "--named-features", tmp_path)
    shown = hasse("study photographs ground", tmp_path, *paths, *named, "--out", tmp_path / "out")
    assert shown.status in {1, 2}
    assert "name as many of each" in shown.err
