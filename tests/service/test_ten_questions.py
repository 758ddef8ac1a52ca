"""Ten things that a person looks for by a name, a place or a text: each comes first, and says why.

The pictures are made here, added by `hasse add` and read by `hasse ocr`.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest
from PIL import ExifTags, Image, ImageDraw, ImageFont

from hasse.service.app import create_app
from hasse.service.settings import Settings
from tests.service.cli.shell import hasse
from tests.service.client import Client
from tests.service.collection import picture
from tests.service.writing.folders.test_metadata import SIDECAR
from tests.tiny import tiny_checkpoint


def written(lines: list[str], ground: str, ink: str) -> Image.Image:
    """A picture of text."""
    page = Image.new("RGB", (360, 40 + 40 * len(lines)), ground)
    pen, font = ImageDraw.Draw(page), ImageFont.load_default(24)
    for at, line in enumerate(lines):
        pen.text((20, 20 + 40 * at), line, fill=ink, font=font)
    return page


def taken_in_paris() -> Image.Exif:
    exif = Image.Exif()
    exif[ExifTags.IFD.GPSInfo] = {1: "N", 2: (48.0, 51.0, 30.0), 3: "E", 4: (2.0, 17.0, 40.0)}
    return exif


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    if find_spec("rapidocr") is None:  # `importorskip` would import it with its telemetry
        pytest.skip("RapidOCR is not installed")
    place = tmp_path_factory.mktemp("ten")
    root = place / "pictures"
    (root / "Lisbon weekend").mkdir(parents=True)
    description = Image.Exif()
    description[ExifTags.Base.ImageDescription] = "Grandmother's birthday"
    picture(1).save(root / "a.png")
    (root / "a.txt").write_text("our cat Felix\n")
    picture(2).save(root / "b.jpg", exif=description)
    picture(3).save(root / "c.png")
    (root / "c.xmp").write_text(SIDECAR.format(stars=4, title="Ostsee"))
    picture(4).save(root / "Lisbon weekend" / "d.png")
    picture(5).save(root / "IMG_2033.png")
    picture(6).save(root / "f.jpg", exif=taken_in_paris())
    written(["BAKERY MUELLER", "TOTAL 5.20"], "white", "black").save(root / "g.png")
    written(["Settings", "wifi password"], "#202428", "#e8eaed").save(root / "h.png")
    picture(7).save(root / "i.png")
    (root / "i.txt").write_text("a dog called Rex\n")
    library, model = place / "library", tiny_checkpoint(place / "model")
    for command in (("add", root, "--model", model), ("ocr",)):
        done = hasse(*command, "--library", library)
        assert done.status == 0, done.err
    settings = Settings(library=library, model=model, device="cpu", deadline_seconds=60)
    with Client(create_app(settings)) as client:
        yield client


@pytest.mark.parametrize(
    ("query", "options", "name", "where"),
    [
        ("our cat Felix", {}, "a.png", "caption"),
        ("grandmother's birthday", {}, "b.jpg", "description"),
        ("Ostsee", {}, "c.png", "title"),
        ("Lisbon", {}, "d.png", "folder"),
        ("IMG_2033", {}, "IMG_2033.png", "file name"),
        ("a dog", {"near": "48.86,2.29,2"}, "f.jpg", None),
        ("bakery mueller", {}, "g.png", "text in the picture"),
        ("wifi password", {}, "h.png", "text in the picture"),
        ("our cat Felxi", {}, "a.png", "caption"),
        ("called -felix", {}, "i.png", "caption"),
    ],
)
def test_question_of_a_person_has_the_right_picture_first_for_the_right_reason(
    asked: Client, query: str, options: dict[str, Any], name: str, where: str | None
) -> None:
    answer = asked.post("/search/images", json={"caption": query, **options}).json()
    first = answer["hits"][0]
    assert first["file_name"].rpartition("/")[2] == name
    assert [one["where"] for one in first["says"]] == ([where] if where else [])
