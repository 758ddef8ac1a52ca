from __future__ import annotations

from pathlib import Path

import numpy as np

from hasse.index.store import Index
from hasse.index.types import CaptionRow
from hasse.models.images.decoding import read_metadata
from hasse.models.images.metadata import PictureMetadata
from hasse.models.images.sidecars import sidecars_of
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
        assert write_sidecars(index) == (1, 1)
    after = {path.name: path.read_bytes() for path in pictures.iterdir()}
    text = after.pop("picture-1.png.xmp").decode()
    assert "a dog runs on a beach" in text
    assert "<rdf:li>dog</rdf:li><rdf:li>runs</rdf:li><rdf:li>beach</rdf:li>" in text
    assert after == before
    picture = pictures / "picture-1.png"
    assert read_metadata(picture, sidecars_of(picture)) == PictureMetadata()
