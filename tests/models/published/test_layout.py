"""Files of a published model are recognised by their places."""

from __future__ import annotations

from pathlib import Path

import pytest

from hasse.models.published.layout import (
    IMMICH,
    LAYOUTS,
    TRANSFORMERS_JS,
    Layout,
    PublishedModelError,
    layout_of,
    layout_of_folder,
)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.maker)
def test_layout_of_all_required_files_is_found(layout: Layout, tmp_path: Path) -> None:
    assert layout_of([*layout.required, "README.md"], "there") is layout
    for name in layout.required:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert layout_of_folder(tmp_path) is layout


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.maker)
def test_layout_without_one_file_names_it(layout: Layout) -> None:
    for missing in layout.required:
        names = [name for name in layout.required if name != missing]
        with pytest.raises(PublishedModelError) as caught:
            layout_of(names, "there")
        expected = f"there has {layout.maker}'s layout, but no {missing}: download the whole"
        assert expected in str(caught.value)


def test_layout_of_other_files_is_none() -> None:
    assert layout_of(["config.json", "model.safetensors", "tokenizer.json"], "there") is None


def test_immich_layout_wants_all_weights_beside_its_graphs() -> None:
    wanted = ("visual/model.onnx_data", "textual/transformer.weight_12", "config.json")
    assert all(map(IMMICH.wants, wanted))
    others = ("README.md", "visual/fp16/model.armnn", "visual/model.armnn", "textual/model.rknn")
    assert not any(map(IMMICH.wants, (*others, "visual/..", "../config.json")))


def test_transformers_layout_wants_its_graphs_in_one_precision() -> None:
    wanted = ("onnx/vision_model.onnx", "onnx/vision_model.onnx_data", "onnx/text_model.onnx_data")
    assert all(map(TRANSFORMERS_JS.wants, wanted))
    others = ("onnx/vision_model_fp16.onnx", "onnx/model.onnx", "onnx/text_model_quantized.onnx")
    assert not any(map(TRANSFORMERS_JS.wants, others))
