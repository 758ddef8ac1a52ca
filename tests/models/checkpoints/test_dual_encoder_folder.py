"""Two published encoders become a model whose points are those of their graphs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper
from PIL import Image

from hasse.lab.checkpoints import learned_model
from hasse.lab.checkpoints.learned_model import order_embedding_of
from hasse.models.checkpoints import checkpoint, dual_encoder_folder
from hasse.models.checkpoints.model_folder import CheckpointError
from hasse.models.dual_encoder import DualEncoder
from hasse.models.errors import HasseError
from hasse.models.networks.network import Runtime
from hasse.models.published.reading import read
from tests.tiny_towers import (
    DIMENSION,
    END,
    PAD,
    SIDE,
    START,
    WORDS,
    immich_folder,
    picture_graph,
    picture_point,
    save_graph,
    save_with_weights_beside,
    text_graph,
    text_point,
    transformers_folder,
)

A, RED, DOG = (WORDS.index(word) for word in ("a", "red", "dog"))
RUNTIMES: tuple[Runtime, ...] = ("onnxruntime", "openvino")
TOLERANCE = 0.02  # bfloat16, in which OpenVINO computes on some processors


def make(source: Path, folder: Path, runtime: str = "onnxruntime") -> DualEncoder:
    dual_encoder_folder.save(folder, "tiny", read(source, "tests/tiny"))
    loaded = checkpoint.load(folder, runtime=runtime).model  # type: ignore[arg-type]
    assert isinstance(loaded, DualEncoder)
    return loaded


def refusal(source: Path, folder: Path) -> str:
    with pytest.raises(HasseError) as caught:
        make(source, folder)
    message = str(caught.value)
    assert "\n" not in message
    return message


def picture(width: int = 30, height: int = 20) -> Image.Image:
    noise = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(noise)


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("write", [immich_folder, transformers_folder])
def test_points_equal_those_of_numpy(
    tmp_path: Path, write: Callable[[Path], Path], runtime: str
) -> None:
    model = make(write(tmp_path / "source"), tmp_path / "model", runtime)
    texts = ["a dog", "a red dog a red dog", ""]
    expected = [
        text_point([START, A, DOG, END, PAD, PAD]),
        text_point([START, A, RED, DOG, A, END]),
        text_point([START, END, PAD, PAD, PAD, PAD]),
    ]
    np.testing.assert_allclose(model.encode_captions(texts), expected, atol=TOLERANCE)
    pictures = [picture(), picture(8, 40)]
    pixels = [model.preprocessing.apply(each) for each in pictures]
    points = model.encode_images(pictures)
    np.testing.assert_allclose(points, [picture_point(each[0]) for each in pixels], atol=TOLERANCE)
    assert points.dtype == np.float32
    assert points.min() < 0, "points keep their signs"
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), 1, atol=1e-6)


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("write", [immich_folder, transformers_folder])
def test_points_of_a_text_with_a_mask_leave_out_its_padding(
    tmp_path: Path, write: Callable[..., Path], runtime: str
) -> None:
    model = make(write(tmp_path / "source", masked=True), tmp_path / "model", runtime)
    expected = text_point([START, A, DOG, END])
    np.testing.assert_allclose(model.encode_captions(["a dog"])[0], expected, atol=TOLERANCE)


def test_points_are_the_same_alone_and_among_others(tmp_path: Path) -> None:
    model = make(immich_folder(tmp_path / "source"), tmp_path / "model")
    texts = ["a dog", "a circle", "red", "blue square"]
    together = model.encode_captions(texts)
    np.testing.assert_array_equal(
        np.stack([model.encode_captions([x])[0] for x in texts]), together
    )
    assert model.encode_captions([]).shape == (0, DIMENSION)
    assert model.encode_pixels([]).shape == (0, DIMENSION)


def test_weights_beside_both_graphs_are_part_of_the_model(tmp_path: Path) -> None:
    source = immich_folder(tmp_path / "source", save=save_with_weights_beside)
    model = make(source, tmp_path / "model")
    names = {path.name for path in (tmp_path / "model").iterdir()}
    assert {"pictures.onnx.data", "texts.onnx.data"} <= names
    plain = make(immich_folder(tmp_path / "plain"), tmp_path / "other")
    np.testing.assert_array_equal(
        model.encode_captions(["a dog"]), plain.encode_captions(["a dog"])
    )
    loaded = checkpoint.load(tmp_path / "model")
    (tmp_path / "model" / "pictures.onnx.data").write_bytes(b"other")
    with pytest.raises(CheckpointError):
        checkpoint.load(tmp_path / "model")
    assert loaded.fingerprint != checkpoint.load(tmp_path / "other").fingerprint


def test_fingerprint_covers_both_graphs_the_tokenizer_and_the_settings(tmp_path: Path) -> None:
    source = immich_folder(tmp_path / "source")
    make(source, tmp_path / "model")
    fingerprints = {checkpoint.load(tmp_path / "model").fingerprint}
    config = json.loads((source / "config.json").read_bytes())
    config["text_cfg"]["tokenizer_kwargs"] = {"clean": "canonicalize"}
    (source / "config.json").write_text(json.dumps(config))
    make(source, tmp_path / "cleaned")
    fingerprints.add(checkpoint.load(tmp_path / "cleaned").fingerprint)
    tokenizer = source / "textual" / "tokenizer.json"
    tokenizer.write_text(tokenizer.read_text().replace('"zebra"', '"horse"') + " ")
    make(source, tmp_path / "spaced")
    fingerprints.add(checkpoint.load(tmp_path / "spaced").fingerprint)
    assert len(fingerprints) == 3


def test_calibration_changes_neither_points_nor_fingerprint(tmp_path: Path) -> None:
    make(immich_folder(tmp_path / "source"), tmp_path / "model")
    before = checkpoint.load(tmp_path / "model")
    checkpoint.write_calibration(tmp_path / "model", before.calibration)
    assert checkpoint.load(tmp_path / "model").fingerprint == before.fingerprint


def test_model_for_captions_alone_has_no_network_of_pictures(tmp_path: Path) -> None:
    whole = make(immich_folder(tmp_path / "source"), tmp_path / "model")
    alone = checkpoint.load(tmp_path / "model", with_pictures=False, runtime="auto").model
    np.testing.assert_allclose(
        alone.encode_captions(["a dog"]), whole.encode_captions(["a dog"]), atol=TOLERANCE
    )
    with pytest.raises(RuntimeError, match="captions only"):
        alone.encode_images([picture()])


def test_model_encodes_without_torch(tmp_path: Path) -> None:
    whole = make(immich_folder(tmp_path / "source"), tmp_path / "model")
    program = f"""
import sys
sys.modules["torch"] = None
from pathlib import Path
from hasse.models.checkpoints import checkpoint
model = checkpoint.load(Path({str(tmp_path / "model")!r}), runtime="auto").model
print(*model.encode_captions(["a dog"])[0])
"""
    command = [sys.executable, "-c", program]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    points = [float(number) for number in result.stdout.split()]
    (expected,) = whole.encode_captions(["a dog"])
    assert points == pytest.approx(expected, abs=TOLERANCE), result.stderr


def test_model_is_not_trained_further(tmp_path: Path) -> None:
    make(immich_folder(tmp_path / "source"), tmp_path / "model")
    with pytest.raises(CheckpointError, match="encoders of another library, which cannot be"):
        _ = order_embedding_of(learned_model.load(tmp_path / "model", to_learn=True))


def test_damaged_file_of_a_model_is_named(tmp_path: Path) -> None:
    make(immich_folder(tmp_path / "source"), tmp_path / "model")
    with (tmp_path / "model" / "texts.onnx").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\0")
    with pytest.raises(CheckpointError, match=r"texts.onnx is not what SHA256SUMS says"):
        checkpoint.load(tmp_path / "model")


@pytest.mark.parametrize("name", ["pictures.onnx", "texts.onnx", "tokenizer.json"])
def test_model_without_one_half_is_refused(tmp_path: Path, name: str) -> None:
    make(immich_folder(tmp_path / "source"), tmp_path / "model")
    (tmp_path / "model" / name).unlink()
    with pytest.raises(CheckpointError, match=f"it has no {name}"):
        checkpoint.load(tmp_path / "model")


def test_model_of_torch_weights_says_which_command_converts_it(tmp_path: Path) -> None:
    make(immich_folder(tmp_path / "source"), tmp_path / "model")
    config = tmp_path / "model" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_bytes()) | {"format": 1}))
    with pytest.raises(CheckpointError, match=r"format 1; .*'hasse lab model convert'"):
        checkpoint.load(tmp_path / "model")


def test_graph_with_other_names_of_inputs_is_refused(tmp_path: Path) -> None:
    source = immich_folder(tmp_path / "source")
    save_graph(picture_graph("x"), source / "visual" / "model.onnx")
    assert "takes x, where Hasse gives image or pixel_values: choose" in refusal(
        source, tmp_path / "model"
    )
    source = immich_folder(tmp_path / "other")
    save_graph(text_graph("words"), source / "textual" / "model.onnx")
    assert "takes words, where Hasse gives text or input_ids, and attention_mask" in refusal(
        source, tmp_path / "model"
    )
    assert not (tmp_path / "model").exists()


def test_graph_with_tokens_that_are_no_whole_numbers_is_refused(tmp_path: Path) -> None:
    source = transformers_folder(tmp_path / "source")
    graph = text_graph("input_ids", dtype=TensorProto.INT64)
    graph.graph.input[0].type.tensor_type.elem_type = TensorProto.FLOAT
    save_graph(graph, source / "onnx" / "text_model.onnx")
    assert "text_model.onnx" in refusal(source, tmp_path / "model")


def test_graph_with_pixels_in_half_precision_is_refused(tmp_path: Path) -> None:
    source = immich_folder(tmp_path / "source")
    graph = picture_graph()
    graph.graph.input[0].type.tensor_type.elem_type = TensorProto.UINT8
    graph.graph.node.insert(0, helper.make_node("Cast", ["image"], ["cast"], to=TensorProto.FLOAT))
    graph.graph.node[1].input[0] = "cast"
    save_graph(graph, source / "visual" / "model.onnx")
    assert "takes pixels of uint8: take the graph in float32" in refusal(source, tmp_path / "model")


def test_graphs_of_two_models_are_refused(tmp_path: Path) -> None:
    source = immich_folder(tmp_path / "source")
    graph = picture_graph()
    (weights,) = graph.graph.initializer
    weights.raw_data, weights.dims[1] = weights.raw_data[: len(weights.raw_data) // 2], 8
    graph.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 8
    save_graph(graph, source / "visual" / "model.onnx")
    message = refusal(source, tmp_path / "model")
    assert "gives points of (8,)" in message
    assert "take both from one model" in message


def test_settings_for_pictures_of_another_size_are_refused(tmp_path: Path) -> None:
    source = immich_folder(tmp_path / "source", pixels={"size": [SIDE + 1, SIDE + 1]})
    message = refusal(source, tmp_path / "model")
    assert f"does not encode pictures of {SIDE + 1} x {SIDE + 1} pixels" in message


def test_points_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    source = immich_folder(tmp_path / "source")
    graph = picture_graph()
    (weights,) = graph.graph.initializer
    weights.raw_data = np.full(3 * SIDE * SIDE * DIMENSION, np.nan, np.float32).tobytes()
    save_graph(graph, source / "visual" / "model.onnx")
    assert "gives points that are no numbers" in refusal(source, tmp_path / "model")


def test_graph_that_no_runtime_reads_is_refused(tmp_path: Path) -> None:
    source = immich_folder(tmp_path / "source")
    (source / "visual" / "model.onnx").write_bytes(b"<html>not found</html>")
    assert "visual/model.onnx is not a" in refusal(source, tmp_path / "model")


def test_settings_that_cannot_be_followed_name_their_file(tmp_path: Path) -> None:
    source = immich_folder(tmp_path / "source", pixels={"resize_mode": "longest"})
    message = refusal(source, tmp_path / "model")
    assert "visual/preprocess_cfg.json (pictures are resized by 'longest'" in message
    source = immich_folder(tmp_path / "other")
    (source / "config.json").write_text("{}")
    assert "config.json ('text_cfg' is missing): choose another" in refusal(
        source, tmp_path / "model"
    )
    (source / "config.json").write_text("[")
    assert "config.json is not a file of settings" in refusal(source, tmp_path / "model")
    assert "holds no published model" in refusal(tmp_path, tmp_path / "model")
