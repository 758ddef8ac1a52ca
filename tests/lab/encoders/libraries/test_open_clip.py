"""Models of open_clip become models of Hasse that encode as open_clip does."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import open_clip
import pytest
import torch
from open_clip.tokenizer import SimpleTokenizer
from open_clip.transform import PreprocessCfg, image_transform_v2
from PIL import Image
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer as Own
from tokenizers import models as kinds
from tokenizers import pre_tokenizers

from hasse.lab.encoders.libraries.clip_tokenizer import clip_tokenizer
from hasse.lab.encoders.libraries.open_clip import hub_repository
from hasse.lab.encoders.pair_export import exported
from hasse.lab.encoders.registry import build_backbone, build_encoder_pair
from hasse.models.checkpoints import checkpoint, dual_encoder_folder
from hasse.models.dual_encoder import DualEncoder
from hasse.models.errors import BackboneError
from hasse.models.tokenizer import Tokenizer, TokenSettings
from tests.tiny_clip import MODEL, NAME, tiny_clip

TEXTS = ["a dog", "A  red Dog\truns in the park and barks at everyone who comes by", "", "собака"]


def made(source: Path, folder: Path) -> DualEncoder:
    """Make a model of exported encoders, and load it."""
    with exported(NAME, build_encoder_pair(NAME, source)) as files:
        dual_encoder_folder.save(folder, "tiny", files)
    loaded = checkpoint.load(folder, runtime="onnxruntime").model
    assert isinstance(loaded, DualEncoder)
    return loaded


def picture(width: int, height: int) -> Image.Image:
    noise = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(noise)


def message(name: str, path: Path) -> str:
    with pytest.raises(BackboneError) as caught:
        build_encoder_pair(name, path)
    return str(caught.value)


@pytest.mark.parametrize("custom_text", [False, True])
def test_points_are_those_of_open_clip(tmp_path: Path, custom_text: bool) -> None:
    theirs = tiny_clip(tmp_path / "clip", custom_text=custom_text)
    ours = made(tmp_path / "clip", tmp_path / "model")
    read = open_clip.get_tokenizer(f"local-dir:{tmp_path / 'clip'}")
    prepare = image_transform_v2(PreprocessCfg(size=32), is_train=False)
    pictures = [picture(64, 48), picture(33, 90), picture(20, 10)]
    with torch.inference_mode():
        texts = theirs.encode_text(read(TEXTS), normalize=True).numpy()
        images = theirs.encode_image(torch.stack([prepare(each) for each in pictures]), True)
    np.testing.assert_allclose(ours.encode_captions(TEXTS, batch_size=3), texts, atol=1e-5)
    np.testing.assert_allclose(ours.encode_images(pictures), images.numpy(), atol=1e-5)
    assert abs(images @ images.T).min() < 0.9, "pictures are told apart"


def test_cached_features_give_the_points_of_the_pictures(tmp_path: Path) -> None:
    tiny_clip(tmp_path / "clip")
    ours = made(tmp_path / "clip", tmp_path / "model")
    alone = build_backbone(NAME, tmp_path / "clip")
    assert alone.fingerprint() == ours.backbone.fingerprint()
    pixels = ours.preprocessing.apply(picture(40, 40))
    with torch.inference_mode():
        features = alone.eval()(torch.from_numpy(pixels)).numpy()
    points = ours.encode_pixels([pixels])
    np.testing.assert_allclose(ours.encode_features(features), points, atol=1e-5)


@pytest.mark.parametrize(
    "text",
    [
        *TEXTS,
        "it's 2024: don't!  été",
        "<end_of_text> 犬 😀 x_y",
        "dog " * 100,
        "Straße, naïve café & co.",
    ],
)
def test_clip_tokenizer_gives_the_tokens_of_open_clip(text: str) -> None:
    ours = Tokenizer(clip_tokenizer(), TokenSettings(77, 0, "lower"))
    assert ours(text)[0].tolist() == SimpleTokenizer()([text]).tolist()


def test_clip_tokenizer_knows_no_word_in_a_script_that_it_has_not_learned() -> None:
    ours = Tokenizer(clip_tokenizer(), TokenSettings(77, 0, "lower"))
    assert ours.unknown_words("a pterodactyl, σκύλος 犬 x") == ["σκύλος", "犬"]
    assert ours.knows("σκύλος x")
    assert not ours.knows("σκύλος!")


def test_a_tokenizer_of_its_own_is_read_from_its_file(tmp_path: Path) -> None:
    known = {"<pad>": 0, "<unk>": 1, "a": 2, "dog": 3}
    own = Own(kinds.WordLevel(known, unk_token="<unk>"))  # noqa: S106
    own.pre_tokenizer = pre_tokenizers.Whitespace()
    own.add_special_tokens(["<pad>", "<unk>"])
    text = MODEL["text_cfg"] | {"vocab_size": 4, "hf_tokenizer_name": "theirs"}
    tiny_clip(tmp_path / "clip", text_cfg=text)
    assert "give --weights a folder with its tokenizer.json" in message(NAME, tmp_path / "clip")
    own.save(str(tmp_path / "clip" / "tokenizer.json"))
    settings = {"pad_token": "<pad>", "tokenizer_class": "PreTrainedTokenizerFast"}
    (tmp_path / "clip" / "tokenizer_config.json").write_text(json.dumps(settings))
    theirs = open_clip.get_tokenizer(f"local-dir:{tmp_path / 'clip'}")
    architecture = build_encoder_pair(NAME, tmp_path / "clip").architecture
    assert architecture.tokenizer is not None
    assert architecture.tokens is not None
    read = Tokenizer(architecture.tokenizer, architecture.tokens)
    texts = ["a dog", "a  cat a dog a dog a dog a dog a dog a dog a dog", ""]
    assert [read(text)[0][0].tolist() for text in texts] == theirs(texts).tolist()
    assert read.unknown_words("a cat") == ["cat"]
    own.add_tokens(["cat"])
    own.save(str(tmp_path / "clip" / "tokenizer.json"))
    said = message(NAME, tmp_path / "clip")
    assert "a part of a word the number 4, and its text encoder knows 4" in said


def test_what_cannot_be_made_is_refused_in_a_sentence(tmp_path: Path) -> None:
    tiny_clip(tmp_path / "clip")
    file = tmp_path / "clip" / "open_clip_model.safetensors"
    assert "there is ViT-B-32" in message("open_clip/ViT-B-23", file)
    assert "no weights 'openal' of ViT-B-32; there is openai" in message(
        "open_clip/ViT-B-32:openal", file
    )
    assert "does not hold weights of open_clip/ViT-S-32" in message("open_clip/ViT-S-32", file)
    assert "Hasse cannot read the text encoder" in message("open_clip/roberta-ViT-B-32", file)
    for name in ("torchvision/resnet18", "sentence-transformers/all-MiniLM-L6-v2"):
        assert "does not encode both pictures and texts" in message(name, file)
    other = "holds another model than open_clip/ViT-B-32: name the one that it holds"
    assert other in message("open_clip/ViT-B-32", tmp_path / "clip")
    assert "there is no file or folder" in message(NAME, tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    assert "holds no weights of open_clip's" in message(NAME, tmp_path / "empty")
    weights = load_file(file)
    weights["visual.proj"] = weights["visual.proj"][:, :8].contiguous()
    save_file(weights, file)
    assert "size mismatch for visual.proj" in message(NAME, tmp_path / "clip")


def test_published_files_are_those_of_the_hub() -> None:
    name = "open_clip/ViT-B-32"
    assert hub_repository(f"{name}:laion2b_s34b_b79k") == "laion/CLIP-ViT-B-32-laion2B-s34B-b79K"
    with pytest.raises(BackboneError, match=r"say which weights of .*: open_clip/ViT-B-32:openai"):
        hub_repository(name)
