"""Libraries that 0.3.0 wrote open, answer alike and take additions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import hasse
from hasse.index.catalog.schema import FORMAT
from hasse.index.creation import open_catalog
from hasse.index.store import Index
from hasse.index.verify import verify
from hasse.service.writing.folders.scan import scan
from hasse.service.writing.folders.sync import FolderSync
from tests.compatibility.libraries import KINDS, catalog_placed, unpack

VERSION = "0.3.0"


class Opened(NamedTuple):
    """An unpacked library, its answers by 0.3.0, and the same opened by this version."""

    folder: Path
    known: dict[str, Any]
    local: hasse.LocalIndex


def are_there(index: Index) -> bool:
    """Tell whether the pictures of all images are where the library looks for them."""
    return all(index.path_of(image).is_file() for image in index.catalog.all_rows()[0])


@pytest.fixture(scope="module", params=KINDS)
def opened(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Opened]:
    folder = unpack(VERSION, request.param, tmp_path_factory.mktemp(request.param))
    model = folder / "tiny" if request.param == "two-towers" else None
    known = json.loads((folder / "answers.json").read_text())
    with (
        catalog_placed(folder),
        hasse.open_index(folder / "library", model, device="cpu") as index,
    ):
        yield Opened(folder, known, index)


def test_library_of_0_3_0_opens_with_all_its_images(opened: Opened) -> None:
    report = verify(opened.folder / "library")
    assert report.findings == ()
    assert report.generation == opened.known["generation"]
    catalog = open_catalog(opened.folder / "library")
    assert catalog.format() == FORMAT
    assert [image.id for image in catalog.all_rows()[0]] == opened.known["images"]
    catalog.close()


def test_library_of_0_3_0_gives_the_answers_of_0_3_0(opened: Opened) -> None:
    for asked in opened.known["answers"]:
        question, options = asked["question"], dict(asked["options"])
        about = asked["about"]
        if question != "search_images":
            about = opened.folder / "pictures" / about
        found = getattr(opened.local, question)(about, **options).hits
        id_ = "caption_id" if question == "search_captions" else "image_id"
        expected = [(hit[id_], pytest.approx(hit["violation"], abs=1e-4)) for hit in asked["hits"]]
        assert [(getattr(hit, id_), hit.violation) for hit in found] == expected, asked
        for hit, before in zip(found, asked["hits"], strict=True):
            if question == "search_images":
                assert hit.file_name == before["file_name"]
                assert hit.captions == before["captions"]


def test_library_of_0_3_0_finds_its_pictures_where_they_are_now(opened: Opened) -> None:
    moved = opened.folder.name.startswith("moved")
    with Index.open(opened.folder / "library", verify="sizes") as index:
        assert are_there(index) != moved
        locations = index.catalog.locations(index.folder, find_missing=True)
        seen = scan([opened.folder / "pictures"], locations=locations, index_folder=index.folder)
        FolderSync(index, seen, remove=True).apply(None)  # type: ignore[arg-type]  # none is new
        index.refresh()
        assert are_there(index)
        assert [image.id for image in index.catalog.all_rows()[0]] == opened.known["images"]


def test_library_of_0_3_0_takes_a_picture_and_removes_one(opened: Opened) -> None:
    picture = (opened.folder / "pictures" / "0001.jpg").read_bytes() + b"another"
    added = opened.local.add_image(picture, ["a dog in a park"])
    assert added.image_id > max(opened.known["images"])
    gone = opened.known["images"][0]
    opened.local.remove_image(gone)
    hits = opened.local.search_images("a dog in a park", k=50, evidence="shows").hits
    assert {hit.image_id for hit in hits} == {*opened.known["images"], added.image_id} - {gone}
    assert opened.local.search_images("dog park", k=1, evidence="says").hits
    assert verify(opened.folder / "library").ok
