from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hasse.index.store import Index
from hasse.index.types import CaptionRow
from hasse.models.images.decoding import read_metadata
from hasse.models.images.metadata import PictureMetadata, read_sidecars
from hasse.models.images.sidecars import sidecars_of, write_sidecar
from hasse.service.pipelines.describing import write_sidecars
from tests.service.collection import make_collection


def test_sidecars_hold_what_a_model_wrote_and_no_other_file_changes(tmp_path: Path) -> None:
    folder = make_collection(tmp_path, captions_each=0)
    pictures = tmp_path / "pictures"
    (pictures / "picture-2.png.xmp").write_text("<theirs/>")
    before = {path.name: path.read_bytes() for path in pictures.iterdir()}
    with Index.open(folder, threads=1) as index:
        captions = [
            CaptionRow(1, 1001, "a dog runs on a beach", "a model"),
            CaptionRow(2, 1002, "a cat", "a model"),
            CaptionRow(3, 1003, "by people"),
        ]
        index.add([], np.empty((0, 16)), captions, np.full((3, index.model.dimension), 0.1))
        assert write_sidecars(index) == (1, 1)
        written = (pictures / "picture-1.png.xmp").stat()
        assert write_sidecars(index) == (0, 2)
        assert (pictures / "picture-1.png.xmp").stat() == written
    after = {path.name: path.read_bytes() for path in pictures.iterdir()}
    text = after.pop("picture-1.png.xmp").decode()
    assert "a dog runs on a beach" in text
    assert "<rdf:li>dog</rdf:li><rdf:li>runs</rdf:li><rdf:li>beach</rdf:li>" in text
    assert after == before
    picture = pictures / "picture-1.png"
    assert read_metadata(picture, sidecars_of(picture)) == PictureMetadata()


_BY_OTHERS = '<x xmlns:dc="http://purl.org/dc/elements/1.1/"/>'


@pytest.mark.parametrize("name", ["p.jpg.xmp", "p.xmp", "p.XMP", "p.jpg.XMP"])
def test_sidecar_of_another_program_is_neither_changed_nor_shadowed(
    tmp_path: Path, name: str
) -> None:
    picture = tmp_path / "p.jpg"
    picture.write_bytes(b"")
    (tmp_path / name).write_text(_BY_OTHERS)
    assert not write_sidecar(picture, ["a dog"], ["dog"])
    assert {path.name for path in tmp_path.iterdir()} == {"p.jpg", name}
    assert (tmp_path / name).read_text() == _BY_OTHERS


def test_sidecar_that_is_a_link_is_left_alone(tmp_path: Path) -> None:
    picture = tmp_path / "p.jpg"
    picture.write_bytes(b"")
    (tmp_path / "p.jpg.xmp").symlink_to(tmp_path / "elsewhere")
    assert not write_sidecar(picture, ["a dog"], ["dog"])
    assert (tmp_path / "p.jpg.xmp").is_symlink()


# What a person does to our sidecar, and texts that it holds, and no longer holds, afterwards.
EDITS = {
    "adds a keyword": (
        "</rdf:Bag></dc:subject>",
        "<rdf:li>Felicitas</rdf:li></rdf:Bag></dc:subject>",
        ["Felicitas", "cat", "a cat"],
        ["dog"],
    ),
    "adds a title and stars": (
        "<dc:subject>",
        '<dc:title><rdf:Alt><rdf:li xml:lang="x-default">At &amp; sea</rdf:li></rdf:Alt></dc:title>'
        '<xmp:Rating xmlns:xmp="http://ns.adobe.com/xap/1.0/">5</xmp:Rating><dc:subject>',
        ["At &amp; sea", ":Rating", "cat"],
        ["dog"],
    ),
    "writes another description": (
        '<rdf:li xml:lang="x-default">a dog',
        '<rdf:li xml:lang="x-default">Rex',
        [">Rex<", ">cat<"],
        [">a dog<"],
    ),
    "removes a keyword": (
        "<dc:subject><rdf:Bag><rdf:li>dog</rdf:li>",
        "<dc:subject><rdf:Bag>",
        ["cat"],
        ["<rdf:li>pet</rdf:li></rdf:Bag><rdf:li>dog"],
    ),
    "removes all keywords": (
        "<dc:subject><rdf:Bag><rdf:li>dog</rdf:li><rdf:li>pet</rdf:li></rdf:Bag></dc:subject>",
        "",
        ["cat"],
        [],
    ),
}


@pytest.mark.parametrize("edit", EDITS)
def test_sidecar_of_ours_keeps_what_a_person_did_to_it(tmp_path: Path, edit: str) -> None:
    before, after, there, away = EDITS[edit]
    picture, sidecar = tmp_path / "p.jpg", tmp_path / "p.jpg.xmp"
    picture.write_bytes(b"")
    assert write_sidecar(picture, ["a dog"], ["dog", "pet"])
    text = sidecar.read_text()
    assert before in text
    sidecar.write_text(text.replace(before, after, 1))
    assert not write_sidecar(picture, ["a dog"], ["dog", "pet"])
    assert sidecar.read_text() == text.replace(before, after, 1)
    assert write_sidecar(picture, ["a cat"], ["cat", "pet"])
    text = sidecar.read_text()
    assert [part for part in there if part not in text] == []
    assert [part for part in away if part in text] == []
    assert not read_sidecars([sidecar]).faults
    assert not write_sidecar(picture, ["a cat"], ["cat", "pet"])


def test_keyword_of_a_person_is_human_though_a_model_writes_it_too(tmp_path: Path) -> None:
    picture, sidecar = tmp_path / "p.jpg", tmp_path / "p.jpg.xmp"
    picture.write_bytes(b"")
    write_sidecar(picture, ["a dog"], ["dog"])
    end = "</rdf:Bag></dc:subject>"
    sidecar.write_text(sidecar.read_text().replace(end, f"<rdf:li>cat</rdf:li>{end}"))
    write_sidecar(picture, ["a cat"], ["cat"])
    assert read_sidecars([sidecar]).texts == {"keyword": ["cat"]}


def test_sidecar_is_readable_by_those_who_can_read_the_picture(tmp_path: Path) -> None:
    picture, sidecar = tmp_path / "p.jpg", tmp_path / "p.jpg.xmp"
    picture.write_bytes(b"")
    picture.chmod(0o600)
    write_sidecar(picture, ["a dog"], ["dog"])
    assert sidecar.stat().st_mode & 0o777 == 0o600
