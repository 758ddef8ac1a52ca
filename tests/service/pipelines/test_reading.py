"""Text in pictures: read once, noted in the text index, and found by its words."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from hasse.index.catalog import documents
from hasse.index.errors import IndexLockedError
from hasse.index.segments.change import Change
from hasse.index.store import Index
from hasse.index.types import ImageRow
from hasse.models.errors import HasseError
from hasse.models.images.limits import DEFAULT_LIMITS
from hasse.service.pipelines import reading
from hasse.service.pipelines.reading import SOURCE, Recogniser, joined_lines, read_pictures
from tests.index.samples import model

RECEIPT = ["BAKERY MUELLER", "Rye bread 3.40", "TOTAL 5.20"]


def page(lines: list[str]) -> Image.Image:
    picture = Image.new("RGB", (360, 40 + 40 * len(lines)), "white")
    pen, font = ImageDraw.Draw(picture), ImageFont.load_default(24)
    for at, line in enumerate(lines):
        pen.text((20, 20 + 40 * at), line, fill="black", font=font)
    return picture


class SizeReader:
    """Says how wide a picture is; of a square it says nothing."""

    def __init__(self) -> None:
        self.read_sizes: list[tuple[int, int]] = []

    def read(self, picture: Image.Image) -> list[str]:
        self.read_sizes.append(picture.size)
        return [] if picture.width == picture.height else ["as wide as", str(picture.width)]


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    """Images of 10 x 8, 20 x 20 and 30 x 8 pixels, and one without a file."""
    rows = []
    for id_, size in enumerate([(10, 8), (20, 20), (30, 8)], start=1):
        Image.new("RGB", size, "white").save(tmp_path / f"{id_}.png")
        rows.append(
            ImageRow(id_, f"{id_}.png", str(tmp_path / f"{id_}.png"), *size, sha256=f"{id_}")
        )
    rows.append(ImageRow(4, "4.png", str(tmp_path / "4.png")))
    with Index.create(tmp_path / "index", model(4), threads=1) as made:
        made.add(rows, np.full((4, 4), 0.5))
        yield made


def said(index: Index) -> dict[int, str]:
    with index.catalog.reading() as connection:
        every = documents.texts_of(connection, range(1, 10))
    return {id_: one.text for id_, texts in every.items() for one in texts if one.source == SOURCE}


def test_text_of_each_picture_is_noted_once(index: Index) -> None:
    reader = SizeReader()
    assert read_pictures(index, reader, DEFAULT_LIMITS) == (3, 2)
    assert said(index) == {1: "as wide as 10", 2: "", 3: "as wide as 30"}
    assert read_pictures(index, reader, DEFAULT_LIMITS) == (0, 0)
    assert len(reader.read_sizes) == 3


def test_reading_that_was_stopped_keeps_what_was_read(index: Index) -> None:
    def stop(done: int, total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        read_pictures(index, SizeReader(), DEFAULT_LIMITS, stop)
    assert set(said(index)) == {1, 2}
    assert read_pictures(index, SizeReader(), DEFAULT_LIMITS) == (1, 1)


def test_picture_that_changes_is_read_again(index: Index) -> None:
    read_pictures(index, SizeReader(), DEFAULT_LIMITS)
    path = index.path_of(index.catalog.images([1])[1])
    Image.new("RGB", (50, 8), "white").save(path)
    row = ImageRow(1, "1.png", str(path), 50, 8, sha256="new")
    index.change(Change([row], np.full((1, 4), 0.5), replaced_images=frozenset([1])))
    assert 1 not in said(index)
    assert read_pictures(index, SizeReader(), DEFAULT_LIMITS) == (1, 1)
    assert said(index)[1] == "as wide as 50"


def test_recogniser_reads_a_receipt_in_any_rotation_and_nothing_in_a_plain_picture() -> None:
    recogniser = Recogniser()
    for degrees in (0, 90, 180):
        lines = recogniser.read(page(RECEIPT).rotate(degrees, expand=True))
        assert sorted(lines) == sorted(RECEIPT)
    assert recogniser.read(Image.new("RGB", (400, 300), "steelblue")) == []


def test_recogniser_loads_its_runtime_without_telemetry(
    tmp_path: Path,
) -> None:
    program = "from hasse.service.pipelines.reading import Recogniser; Recogniser()"
    home = {**os.environ, "HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-c", program], check=True, env=home)
    assert not list(tmp_path.rglob("*onnxruntime*"))


def test_without_the_package_one_line_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rapidocr", None)
    with pytest.raises(HasseError, match=r"\[ocr\]"):
        reading.Recogniser()


def test_pictures_that_come_while_others_are_read_are_read_too(index: Index) -> None:
    class AddingReader(SizeReader):
        def read(self, picture: Image.Image) -> list[str]:
            if not self.read_sizes:
                path = index.folder.parent / "late.png"
                Image.new("RGB", (50, 8), "white").save(path)
                index.add([ImageRow(9, "late.png", str(path), sha256="9")], np.full((1, 4), 0.5))
            return super().read(picture)

    read, _ = read_pictures(index, AddingReader(), DEFAULT_LIMITS)
    assert read == 4
    assert said(index)[9] == "as wide as 50"


def test_second_reader_of_a_library_is_refused_while_the_first_reads(index: Index) -> None:
    class Other(SizeReader):
        def read(self, picture: Image.Image) -> list[str]:
            with pytest.raises(IndexLockedError, match="reading the pictures"):
                read_pictures(index, SizeReader(), DEFAULT_LIMITS)
            return super().read(picture)

    assert read_pictures(index, Other(), DEFAULT_LIMITS) == (3, 2)


@pytest.mark.parametrize(
    ("lines", "joined"),
    [
        (["The photo exhi-", "bition opens"], ["The photo exhibition", "opens"]),
        (["exhi\u2010", "bition"], ["exhibition"]),
        (["pages 1-", "2 are here"], ["pages 1-", "2 are here"]),
        (["Anna -", "berger"], ["Anna -", "berger"]),
        (["Baden-", "W\u00fcrttemberg"], ["Baden-", "W\u00fcrttemberg"]),
        (["a-", "b-", "c"], ["abc"]),
        ([], []),
    ],
)
def test_word_that_a_line_breaks_is_joined(lines: list[str], joined: list[str]) -> None:
    assert joined_lines(lines) == joined
