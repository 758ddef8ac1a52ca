"""An index searched in this process: the answers and the errors of the service."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import hasse
from hasse.index.segments import file_checks, segment
from hasse.models.checkpoints import checkpoint
from hasse.models.networks.network import Runtime
from hasse.service.app import create_app
from hasse.service.settings import Settings
from tests.service.client import Client
from tests.service.collection import make_collection, picture, png, without_paths


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_collection(tmp_path_factory.mktemp("local"))


@pytest.fixture(scope="module")
def index(folder: Path) -> Iterator[hasse.LocalIndex]:
    with hasse.open_index(folder, device="cpu") as index:
        yield index


@pytest.fixture(scope="module")
def service(folder: Path) -> Iterator[Client]:
    with Client(create_app(Settings(library=folder, device="cpu"))) as client:
        yield client


OPTIONS: list[dict[str, Any]] = [
    {},
    {"k": 3, "mode": "exact", "offset": 1},
    {"image_ids": [1000, 1001, 1002], "split": "test"},
    {"split": "other"},
    {"added_before": datetime(2020, 1, 1, tzinfo=UTC)},
    {"max_violation": 0.2, "candidates": 5},
]


@pytest.mark.parametrize("options", OPTIONS)
def test_local_search_answers_as_the_service(
    index: hasse.LocalIndex, service: Client, options: dict[str, Any]
) -> None:
    body = {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in options.items()
    }

    def served(path: str, **fields: Any) -> Any:
        return without_paths(service.post(path, json=fields | body).json())

    images = index.search_images("a dog", **options)
    assert without_paths(images.model_dump(mode="json")) == served(
        "/search/images", caption="a dog"
    )
    all_of = index.search_all_of(["a dog", 1001], **options)
    assert without_paths(all_of.model_dump(mode="json")) == served(
        "/search/all_of", all_of=["a dog", 1001]
    )
    common = index.search_common([1000, "a cat"], **options)
    assert without_paths(common.model_dump(mode="json")) == served(
        "/search/common", common=[1000, "a cat"]
    )
    like = index.search_like(1000, ["a dog"], ["a cat"], **options)
    expected = served("/search/like", like=1000, plus=["a dog"], minus=["a cat"])
    assert without_paths(like.model_dump(mode="json")) == expected


def test_local_picture_is_taken_as_bytes_path_and_image(
    index: hasse.LocalIndex, service: Client, tmp_path: Path
) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(png(1))
    expected = without_paths(service.post("/search/captions", files={"image": png(1)}).json())
    for given in (png(1), path, str(path), picture(1), picture(1).convert("RGBA")):
        assert without_paths(index.search_captions(given).model_dump(mode="json")) == expected
    assert index.search_captions(picture(1).convert("CMYK")).hits
    both = index.search_all_of([path, picture(2)], k=2)
    assert [len(hit.parts) for hit in both.hits] == [2, 2]
    assert index.search_common([png(1), "a dog"]).hits[0].parts[0] >= 0


def test_local_entailment_answers_as_the_service(index: hasse.LocalIndex, service: Client) -> None:
    for premise in ("a red dog", 1001):
        body = {"premise": premise, "hypothesis": "a cat"}
        expected = service.post("/entails", json=body).json()
        assert index.entails(premise, "a cat").model_dump(mode="json") == expected
    form = {"files": {"image": png(1)}, "data": {"hypothesis": "a cat"}}
    expected = service.post("/entails", **form).json()
    assert index.entails(picture(1), "a cat").model_dump(mode="json") == expected


@pytest.mark.parametrize(
    ("ask", "path", "body"),
    [
        (lambda index: index.search_images("\0"), "images", {"caption": "\0"}),
        (lambda index: index.search_images("a", k=0), "images", {"caption": "a", "k": 0}),
        (lambda index: index.search_all_of(["a", 7]), "all_of", {"all_of": ["a", 7]}),
        (lambda index: index.search_all_of(["a", "\0"]), "all_of", {"all_of": ["a", "\0"]}),
    ],
)
def test_local_error_is_that_of_the_service(
    index: hasse.LocalIndex, service: Client, ask: Any, path: str, body: dict[str, Any]
) -> None:
    with pytest.raises(hasse.ProblemError) as raised:
        ask(index)
    expected = service.post(f"/search/{path}", json=body).json()
    told = raised.value.problem.model_dump(mode="json")
    assert told | {"request_id": ""} == expected | {"request_id": ""}


def test_local_request_that_is_invalid_is_refused(index: hasse.LocalIndex) -> None:
    for parts in ([], ["a"] * 17):
        with pytest.raises(hasse.InvalidError):
            index.search_all_of(parts)
    with pytest.raises(hasse.InvalidError, match="not_a_picture"):
        index.search_captions(b"text")
    with pytest.raises(TypeError, match="into a list"):
        index.search_common("a dog")


def test_local_index_takes_and_removes_pictures(tmp_path: Path) -> None:
    folder = make_collection(tmp_path)
    with hasse.open_index(str(folder)) as index:
        added = index.add_image(picture(60), ["a dog in the park"], split="new")
        assert (added.created, added.split, added.file_name) == (True, "new", "picture.png")
        assert [hit.image_id for hit in index.search_images("a dog", split="new").hits] == [
            added.image_id
        ]
        assert index.image(added.image_id).captions[0].caption == "a dog in the park"
        assert index.picture(added.image_id).startswith(b"\x89PNG")
        index.remove_image(added.image_id)
        with pytest.raises(hasse.NotFoundError):
            index.image(added.image_id)
    index.close()
    with pytest.raises(hasse.HasseError, match="closed"):
        index.search_images("a dog")


def test_open_index_without_a_folder_opens_the_library_of_the_user(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HASSE_LIBRARY", str(folder))
    with hasse.open_index(device="cpu") as opened:
        assert opened.search_images("a dog", k=1).hits


def test_local_index_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(hasse.HasseError):
        hasse.open_index(tmp_path)
    with pytest.raises(hasse.HasseError):
        hasse.load_model(tmp_path)


def test_model_encodes_as_the_index(folder: Path, index: hasse.LocalIndex) -> None:
    # The index may encode pictures in bfloat16.
    model = hasse.load_model(folder.parent / "model", device="cpu")
    pictures = model.encode_pictures([png(1), Image.open(folder.parent / "pictures/picture-1.png")])
    captions = model.encode_captions(["a cat runs", "a dog"])
    assert pictures.shape == captions.shape == (2, model.dimension)
    (hit,) = [
        hit
        for hit in index.search_captions(png(1), k=24, distinct=False).hits
        if hit.caption_id == 10010
    ]
    violations = model.violations(pictures, captions)
    assert violations[0, 0] == pytest.approx(hit.violation, abs=2e-3)
    for premise in ("a red dog", png(1), picture(1)):
        told = model.entails(premise, "a cat")
        assert told.violation == pytest.approx(index.entails(premise, "a cat").violation, abs=2e-3)
        assert told.entailed is index.entails(premise, "a cat").entailed
    with pytest.raises(hasse.HasseError):
        model.encode_pictures([b"text"])
    with pytest.raises(hasse.HasseError, match=r"nowhere\.jpg: file not found"):
        model.encode_pictures(["nowhere.jpg"])
    damaged = folder.parent / "page.jpg"
    damaged.write_text("<html>")
    with pytest.raises(hasse.HasseError, match=r"page\.jpg: not a picture"):
        model.encode_pictures([damaged])


@pytest.mark.parametrize("runtime", ["auto", "openvino", "onnxruntime"])
def test_model_encodes_pictures_by_the_runtime_of_the_service(
    runtime: Runtime, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HASSE_ENCODER_RUNTIME", runtime)
    place = folder.parent / "model"
    pictures = [Image.open(folder.parent / f"pictures/picture-{at}.png") for at in (1, 2)]
    expected = checkpoint.load(place, "cpu", runtime=runtime).model.encode_images(pictures)
    points = hasse.load_model(place, device="cpu").encode_pictures(pictures)
    np.testing.assert_array_equal(points, expected)


def test_damage_of_a_large_segment_that_is_found_later_is_raised_by_the_next_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_collection(tmp_path / "index")
    for module in (segment, file_checks):
        monkeypatch.setattr(module, "LARGE_BYTES", 1)
    path = next(folder.glob(f"segments/image-*/{segment.POINTS}"))
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    monkeypatch.setenv("HASSE_REFRESH_SECONDS", "0.01")

    def search_on(index: hasse.LocalIndex) -> None:
        while True:
            index.search_images("a", k=1)

    with (
        hasse.open_index(folder, device="cpu") as index,
        pytest.raises(hasse.HasseError, match="was changed since it was written"),
    ):
        search_on(index)
