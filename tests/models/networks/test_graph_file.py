"""Types of a graph's inputs, and weights in files beside a graph, are read from its file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, external_data_helper, helper

from hasse.models.networks.graph_file import copy_graph, external_files, input_types
from hasse.models.networks.network import NetworkError, open_network
from tests.tiny_towers import (
    DIMENSION,
    SIDE,
    picture_graph,
    save_graph,
    save_with_weights_beside,
    text_graph,
)


def point(graph: Path) -> np.ndarray:
    pixels = np.random.default_rng(0).normal(size=(1, 3, SIDE, SIDE)).astype(np.float32)
    return open_network(graph, "onnxruntime").run({"image": pixels})["embedding"]


def test_input_types_are_those_that_onnx_names(tmp_path: Path) -> None:
    save_graph(text_graph(masked=True), tmp_path / "short.onnx")
    save_graph(text_graph("input_ids", dtype=TensorProto.INT64), tmp_path / "long.onnx")
    save_graph(picture_graph(), tmp_path / "picture.onnx")
    assert input_types(tmp_path / "short.onnx") == {"text": "int32", "attention_mask": "int32"}
    assert input_types(tmp_path / "long.onnx") == {"input_ids": "int64"}
    assert input_types(tmp_path / "picture.onnx") == {"image": "float32"}


def test_copy_graph_without_other_files_copies_its_bytes(tmp_path: Path) -> None:
    save_graph(picture_graph(), tmp_path / "model.onnx")
    assert external_files(tmp_path / "model.onnx") == []
    target = tmp_path / "copy.onnx"
    assert copy_graph(tmp_path / "model.onnx", target) == [target]
    assert target.read_bytes() == (tmp_path / "model.onnx").read_bytes()


def test_copy_graph_with_weights_beside_it_takes_them_along(tmp_path: Path) -> None:
    save_with_weights_beside(picture_graph(), tmp_path / "there" / "model.onnx")
    assert external_files(tmp_path / "there" / "model.onnx") == ["model.onnx_data"]
    expected = point(tmp_path / "there" / "model.onnx")
    copied = copy_graph(tmp_path / "there" / "model.onnx", tmp_path / "copy.onnx")
    assert copied == [tmp_path / "copy.onnx.data", tmp_path / "copy.onnx"]
    for path in (tmp_path / "there").iterdir():
        path.unlink()
    onnx.checker.check_model(tmp_path / "copy.onnx")
    np.testing.assert_array_equal(point(tmp_path / "copy.onnx"), expected)


def test_copy_graph_with_a_file_for_each_weight_gathers_those_of_branches_too(
    tmp_path: Path,
) -> None:
    graph = picture_graph()
    branch = helper.make_graph(
        [helper.make_node("Identity", ["more"], ["inner"])],
        "branch",
        [],
        [helper.make_tensor_value_info("inner", TensorProto.FLOAT, (DIMENSION,))],
        [onnx.numpy_helper.from_array(np.arange(DIMENSION, dtype=np.float32), "more")],
    )
    yes = onnx.numpy_helper.from_array(np.array(True), "yes")
    graph.graph.initializer.append(yes)
    node = helper.make_node("If", ["yes"], ["bias"], then_branch=branch, else_branch=branch)
    product = next(each for each in graph.graph.node if each.op_type == "MatMul")
    product.output[0] = "product"
    graph.graph.node.extend([node, helper.make_node("Add", ["product", "bias"], ["embedding"])])
    expected = [array.raw_data for array in external_data_helper._get_all_tensors(graph)]
    external_data_helper.convert_model_to_external_data(
        graph, all_tensors_to_one_file=False, size_threshold=0
    )
    (tmp_path / "there").mkdir()
    onnx.save(graph, tmp_path / "there" / "model.onnx")
    assert len(external_files(tmp_path / "there" / "model.onnx")) >= 2
    copy_graph(tmp_path / "there" / "model.onnx", tmp_path / "copy.onnx")
    copied = external_data_helper._get_all_tensors(onnx.load(tmp_path / "copy.onnx"))
    assert [array.raw_data for array in copied] == expected


def test_copy_graph_without_a_file_of_weights_names_it(tmp_path: Path) -> None:
    save_with_weights_beside(picture_graph(), tmp_path / "model.onnx")
    (tmp_path / "model.onnx_data").unlink()
    with pytest.raises(NetworkError, match=r"has its weights in model.onnx_data, which is not in"):
        copy_graph(tmp_path / "model.onnx", tmp_path / "copy.onnx")


@pytest.mark.parametrize("place", ["../secret", "/etc/passwd", ""])
def test_external_files_outside_the_folder_are_refused(tmp_path: Path, place: str) -> None:
    graph = picture_graph()
    (weights,) = graph.graph.initializer
    external_data_helper.set_external_data(weights, place)
    save_graph(graph, tmp_path / "model.onnx")
    with pytest.raises(NetworkError, match="reads weights outside its folder"):
        external_files(tmp_path / "model.onnx")


@pytest.mark.parametrize("content", [b"", b"<html>not found</html>", b"version https://git-lfs"])
def test_file_that_is_no_graph_is_refused_in_a_sentence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.onnx").write_bytes(content)
    with pytest.raises(NetworkError, match="is not an ONNX graph: download it again"):
        external_files(tmp_path / "model.onnx")


def test_graph_that_is_cut_short_is_refused_in_a_sentence(tmp_path: Path) -> None:
    content = picture_graph().SerializeToString()
    (tmp_path / "model.onnx").write_bytes(content[: len(content) // 2])
    with pytest.raises(NetworkError, match="is not an ONNX graph: download it again"):
        external_files(tmp_path / "model.onnx")
