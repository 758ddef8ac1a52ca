from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import ExifTags, Image

from hasse.models.images.decoding import read_metadata
from hasse.models.images.metadata import (
    KEYWORDS,
    TEXT_CHARACTERS,
    PictureMetadata,
)
from hasse.models.images.sidecars import sidecars_of, write_sidecar

_HEAD = (
    '<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF '
    'xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><rdf:Description '
    'xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:xmp="http://ns.adobe.com/xap/1.0/" '
    'xmlns:exif="http://ns.adobe.com/exif/1.0/" '
    'xmlns:lr="http://ns.adobe.com/lightroom/1.0/" '
)


def packet(attributes: str = "", elements: str = "") -> bytes:
    return f"{_HEAD}{attributes}>{elements}</rdf:Description></rdf:RDF></x:xmpmeta>".encode()


def bag(name: str, *texts: str) -> str:
    items = "".join(f"<rdf:li>{text}</rdf:li>" for text in texts)
    return f"<{name}><rdf:Bag>{items}</rdf:Bag></{name}>"


def photograph(path: Path, exif: Image.Exif | None = None, xmp: bytes = b"") -> Path:
    Image.new("RGB", (16, 16)).save(path, exif=exif or Image.Exif(), xmp=xmp)
    return path


def exif_at(latitude: object, longitude: object, side: str = "N") -> Image.Exif:
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 1
    gps = exif.get_ifd(ExifTags.IFD.GPSInfo)
    gps.update({1: side, 2: latitude, 3: "E", 4: longitude})
    return exif


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp", "avif"])
def test_metadata_of_exif_is_read(suffix: str, tmp_path: Path) -> None:
    exif = exif_at((52.0, 30.0, 36.0), (13.0, 24.0, 0.0))
    exif[ExifTags.Base.ImageDescription] = "Our cat Felix"
    exif[ExifTags.Base.Make], exif[ExifTags.Base.Model] = "Canon", "Canon EOS 5D"
    exif[0x4746] = 4
    exif[0x9C9E] = "hund;strand".encode("utf-16-le")
    exif.get_ifd(ExifTags.IFD.Exif)[ExifTags.Base.LensModel] = "EF 50mm"
    found = read_metadata(photograph(tmp_path / f"a.{suffix}", exif))
    assert found.texts == {"description": ["Our cat Felix"], "keyword": ["hund", "strand"]}
    assert (found.camera, found.lens, found.rating) == ("Canon EOS 5D", "EF 50mm", 4)
    assert found.position == pytest.approx((52.51, 13.4))


def test_metadata_of_xmp_is_read(tmp_path: Path) -> None:
    xmp = packet(
        'xmp:Rating="3" exif:GPSLatitude="52,30.6N" exif:GPSLongitude="13,24,0W"',
        bag("dc:title", "Sunset")
        + bag("dc:subject", "Ostsee", "sea")
        + bag("lr:hierarchicalSubject", "Places|Berlin"),
    )
    found = read_metadata(photograph(tmp_path / "a.jpg", xmp=xmp))
    assert found.texts == {"title": ["Sunset"], "keyword": ["Ostsee", "sea", "Places", "Berlin"]}
    assert found.rating == 3
    assert found.position == pytest.approx((52.51, -13.4))


def test_metadata_of_iptc_in_latin_1_is_read(tmp_path: Path) -> None:
    records = b"".join(
        struct.pack(">BBBH", 0x1C, 2, dataset, len(value)) + value
        for dataset, value in [
            (25, "Müller".encode("latin-1")),
            (25, b"sea"),
            (90, "Köln".encode()),
        ]
    )
    resource = b"8BIM" + struct.pack(">H", 0x0404) + b"\0\0" + struct.pack(">I", len(records))
    block = b"Photoshop 3.0\0" + resource + records + b"\0" * (len(records) % 2)
    plain = photograph(tmp_path / "a.jpg").read_bytes()
    marker = b"\xff\xed" + struct.pack(">H", len(block) + 2) + block
    (tmp_path / "a.jpg").write_bytes(plain[:2] + marker + plain[2:])
    assert read_metadata(tmp_path / "a.jpg").texts == {
        "keyword": ["Müller", "sea"],
        "place": ["Köln"],
    }


@pytest.mark.parametrize(
    ("exif", "position"),
    [
        (exif_at((0.0, 0.0, 0.0), (0.0, 0.0, 0.0)), None),
        (exif_at((91.0, 0.0, 0.0), (13.0, 0.0, 0.0)), None),
        (exif_at((52.0, 0.0, 0.0), (181.0, 0.0, 0.0)), None),
        (exif_at((89.0, 59.0, 0.0), (13.0, 0.0, 0.0), "S"), (-89.98333, 13.0)),
    ],
)
def test_position_beyond_the_poles_or_at_zero_is_none(
    exif: Image.Exif, position: tuple[float, float] | None, tmp_path: Path
) -> None:
    found = read_metadata(photograph(tmp_path / "a.jpg", exif)).position
    assert found == (position and pytest.approx(position))


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"<x:xmpmeta",
        packet()[:-20],
        b"\xff\xfe\0garbage",
        b'<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>',
        packet('xmp:Rating="lots" exif:GPSLatitude="99999,9.9N" exif:GPSLongitude="1,1E"'),
    ],
)
def test_broken_xmp_leaves_the_rest_readable(broken: bytes, tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[ExifTags.Base.ImageDescription] = "kept"
    sidecar = tmp_path / "a.xmp"
    sidecar.write_bytes(broken)
    picture = photograph(tmp_path / "a.jpg", exif, broken)
    found = read_metadata(picture, [sidecar])
    assert replace(found, faults={}) == PictureMetadata({"description": ["kept"]})


def test_unreadable_sidecar_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.xmp").write_bytes(b"<broken")
    sidecars = [tmp_path / "a.xmp", tmp_path / "gone.xmp"]
    found = read_metadata(photograph(tmp_path / "a.jpg"), sidecars)
    assert list(found.faults) == ["a.xmp", "gone.xmp"]


def test_long_texts_and_many_keywords_are_cut(tmp_path: Path) -> None:
    xmp = packet(
        elements=bag("dc:description", "x" * 2_000_000)
        + bag("dc:subject", *(f"word {at}" for at in range(10_000)))
    )
    (tmp_path / "a.xmp").write_bytes(xmp)
    found = read_metadata(photograph(tmp_path / "a.jpg"), [tmp_path / "a.xmp"])
    assert found.texts["description"] == ["x" * TEXT_CHARACTERS]
    assert len(found.texts["keyword"]) == KEYWORDS


def test_texts_hold_no_control_characters(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[ExifTags.Base.ImageDescription] = "a\x01b\x1b[31m\tc"
    found = read_metadata(photograph(tmp_path / "a.jpg", exif))
    assert found.texts == {"description": ["a b [31m c"]}


def test_sidecars_that_contradict_each_other_all_count_and_the_closest_has_the_word(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.jpg.xmp").write_bytes(packet('xmp:Rating="5"', bag("dc:title", "one")))
    (tmp_path / "a.xmp").write_bytes(packet('xmp:Rating="1"', bag("dc:title", "two")))
    sidecars = sidecars_of(tmp_path / "a.jpg")
    assert [path.name for path in sidecars] == ["a.jpg.xmp", "a.xmp"]
    found = read_metadata(photograph(tmp_path / "a.jpg"), sidecars)
    assert found.texts == {"title": ["one", "two"]}
    assert found.rating == 5


def test_picture_whose_name_leaves_no_room_for_that_of_a_sidecar_has_none(tmp_path: Path) -> None:
    path = tmp_path / f"{'a' * 250}.jpg"
    path.write_bytes(b"")
    assert sidecars_of(path) == []


def test_written_sidecar_is_not_read_back_but_what_people_add_is(tmp_path: Path) -> None:
    picture = photograph(tmp_path / "a.jpg")
    before = picture.read_bytes()
    assert write_sidecar(picture, ["a dog & a <cat>", "two pets"], ["dog", "cat"])
    sidecar = tmp_path / "a.jpg.xmp"
    assert read_metadata(picture, [sidecar]) == PictureMetadata()
    added = sidecar.read_text().replace("<rdf:li>dog</rdf:li>", "<rdf:li>Felix</rdf:li>", 1)
    sidecar.write_text(added)
    assert read_metadata(picture, [sidecar]).texts == {"keyword": ["Felix"]}
    assert picture.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jpg", "a.jpg.xmp"]


def test_sidecar_of_others_is_not_written_over(tmp_path: Path) -> None:
    picture = photograph(tmp_path / "a.jpg")
    (tmp_path / "a.jpg.xmp").write_bytes(packet(elements=bag("dc:title", "theirs")))
    assert not write_sidecar(picture, ["a dog"], [])
    assert read_metadata(picture, [tmp_path / "a.jpg.xmp"]).texts == {"title": ["theirs"]}
