"""A name and a word are the same however they are written."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest

from hasse.index.text.query import fold
from hasse.models.datasets.names import NameIndex
from hasse.models.datasets.walk import walk
from hasse.models.images.metadata import PictureMetadata
from hasse.models.spelling import composed, spellings, visible
from hasse.models.vocabulary import words

# How programs write "Zürich": letters with and without their dots, and with what nobody sees.
WRITTEN = {
    "composed": "Z\u00fcrich",
    "decomposed": "Zu\u0308rich",
    "soft hyphen": "Z\u00fc\u00adrich",
    "zero-width space": "Z\u00fc\u200brich",
    "zero-width joiner": "Z\u00fcri\u200dch",
    "byte-order mark": "\ufeffZ\u00fcrich",
    "mark of direction": "\u200eZ\u00fcrich\u200f",
    "isolate": "\u2068Z\u00fcrich\u2069",
    "word joiner": "Z\u00fc\u2060rich",
}


@pytest.mark.parametrize("how", WRITTEN)
def test_word_is_the_same_word_for_the_model_and_for_text_search(how: str) -> None:
    assert words(WRITTEN[how]) == ["z\u00fcrich"]
    assert fold(WRITTEN[how]) == "zurich"
    assert NameIndex([WRITTEN["decomposed"] + ".jpg"]).find(WRITTEN[how] + ".jpg") is not None
    metadata = PictureMetadata()
    metadata.add_text("keyword", WRITTEN[how])
    assert list(map(composed, metadata.texts["keyword"])) == ["Z\u00fcrich"]


def test_joiners_stay_in_scripts_where_they_are_seen() -> None:
    persian = "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"
    assert visible(persian) == persian


def test_path_has_the_spellings_of_each_of_its_names() -> None:
    name, other = WRITTEN["composed"], unicodedata.normalize("NFD", "\u00e9t\u00e9")
    found = spellings(f"/a/{name}/{other}/x")
    decomposed = WRITTEN["decomposed"]
    assert f"/a/{decomposed}/\u00e9t\u00e9/x" in found
    assert f"/a/{name}/{other}/x" in found
    assert len(found) == 4
    assert spellings("/a/b") == ["/a/b"]
    assert len(spellings("/".join(["\u00e9"] * 40))) == 64


@pytest.mark.parametrize(
    ("disk", "pattern"), [("decomposed", "composed"), ("composed", "decomposed")]
)
def test_excluded_folder_is_left_out_in_both_spellings(
    tmp_path: Path, disk: str, pattern: str
) -> None:
    folder = tmp_path / WRITTEN[disk]
    folder.mkdir()
    (folder / "a.jpg").write_bytes(b"")
    assert walk(tmp_path, [f"{WRITTEN[pattern]}/"]).pictures == []
    assert len(walk(tmp_path).pictures) == 1
