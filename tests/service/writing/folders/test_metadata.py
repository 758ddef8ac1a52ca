"""What is written about pictures of a folder, in their files and in sidecars."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import ExifTags, Image

from hasse.index.catalog.selection import Selection
from hasse.index.store import Index
from hasse.models.images.limits import DEFAULT_LIMITS
from hasse.models.images.metadata import PictureMetadata
from hasse.models.images.sidecars import write_sidecar
from hasse.service.pipelines import duplicates
from hasse.service.writing import metadata
from hasse.service.writing.folders.plan import Counts
from hasse.service.writing.metadata import metadata_of, place_name
from tests.models.images.test_perceptual_hash import photograph

SIDECAR = (
    '<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF '
    'xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><rdf:Description '
    'xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:xmp="http://ns.adobe.com/xap/1.0/" '
    'xmp:Rating="{stars}"><dc:title>{title}</dc:title></rdf:Description></rdf:RDF></x:xmpmeta>'
)


def saying(index: Index, *texts: str, **other: int) -> list[int]:
    selection = Selection(phrases=texts, **other)  # type: ignore[arg-type]
    return sorted(selection.ids(index.catalog, index.folder, "image", np.arange(20)).tolist())


def test_metadata_of_new_pictures_is_found(
    index: Index, root: Path, sync: Callable[..., Counts]
) -> None:
    exif = Image.Exif()
    exif[ExifTags.Base.ImageDescription] = "Grandmother's birthday"
    exif[ExifTags.Base.Model] = "EOS 5D"
    Image.new("RGB", (64, 48), "red").save(root / "photo.jpg", exif=exif)
    (root / "photo.jpg.xmp").write_text(SIDECAR.format(stars=4, title="Ostsee"))
    (root / "nothing.xmp").write_text(SIDECAR.format(stars=4, title="no picture"))
    sync()
    (image,) = saying(index, "grandmother s birthday")
    assert saying(index, "ostsee", rating=4) == [image]
    assert saying(index, "eos 5d") == [image]
    assert saying(index, "no picture") == []


def test_new_pictures_are_hashed_so_that_duplicates_reads_only_pairs(
    index: Index, root: Path, sync: Callable[..., Counts], monkeypatch: pytest.MonkeyPatch
) -> None:
    picture = photograph(0)
    picture.save(root / "large.png")
    picture.resize((200, 150)).save(root / "small.jpg")
    photograph(1).save(root / "other.png")
    sync()
    read: list[int] = []
    thumbnail = duplicates._thumbnail

    def counted(*of: Any) -> Any:
        read.append(of[2].id)
        return thumbnail(*of)

    monkeypatch.setattr(duplicates, "_thumbnail", counted)
    duplicates.hash_pictures(index, DEFAULT_LIMITS, lambda done, total: None)
    assert read == []
    duplicates.find_versions(index, DEFAULT_LIMITS, lambda done, total: None)
    (group,) = duplicates.same_files(index)
    assert [Path(file.path).name for file in group.files] == ["large.png", "small.jpg"]
    assert sorted(read) == sorted(file.image_id for file in group.files)


def test_sidecar_that_changes_comes_or_goes_is_followed_once(
    index: Index, root: Path, sync: Callable[..., Counts]
) -> None:
    sync(seen_at=time.time() + 100)  # as if the pictures had been at rest
    sidecar = root / "a" / "one.xmp"
    sidecar.write_text(SIDECAR.format(stars=2, title="Summer"))
    assert sync() == Counts(present=3)
    assert saying(index, "summer", rating=2) == [1]
    generation = index.generation
    sync()
    assert index.generation == generation
    sidecar.write_text(SIDECAR.format(stars=5, title="Late autumn"))
    sync()
    assert saying(index, "late autumn", rating=5) == [1]
    assert saying(index, "summer") == []
    sidecar.unlink()
    sync()
    assert saying(index, "late autumn") == []


def test_broken_sidecar_is_named_and_the_rest_stays(
    index: Index, root: Path, sync: Callable[..., Counts]
) -> None:
    (root / "a" / "one.xmp").write_text("<broken")
    sync()
    assert saying(index, "one png") == [1]


def test_sidecar_written_by_us_is_not_said_by_people(
    index: Index, root: Path, sync: Callable[..., Counts]
) -> None:
    write_sidecar(root / "a" / "one.png", ["a zebra crossing"], ["zebra"])
    sync()
    assert saying(index, "zebra") == []


def test_index_that_has_no_metadata_yet_gets_it(
    index: Index, root: Path, sync: Callable[..., Counts]
) -> None:
    sync()
    with index.catalog.writing() as connection:
        connection.exec_driver_sql("DELETE FROM metadata")
    (root / "a" / "one.xmp").write_text(SIDECAR.format(stars=1, title="Found"))
    sync()
    assert saying(index, "found") == [1]


def test_place_names_the_settlement_and_the_city_around_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    suburb = {"city": "Vanves", "country": "France", "latitude": 48.823, "longitude": 2.290}
    city = {"city": "Paris", "country": "France", "latitude": 48.853, "longitude": 2.349}
    known = SimpleNamespace(get=lambda place, population: city if population else suburb)
    monkeypatch.setattr(metadata, "_gazetteer", lambda: known)
    assert place_name(48.8584, 2.2945) == "Vanves, France, Paris"
    assert place_name(0.0, -30.0) == ""  # in the sea, far from both
    row = metadata_of(PictureMetadata(position=(48.8584, 2.2945)))
    assert row.texts == (("place", "Vanves, France, Paris"),)
    assert (row.latitude, row.longitude) == (48.8584, 2.2945)


def test_place_without_the_package_has_coordinates_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "reverse_geocode", None)
    metadata._gazetteer.cache_clear()
    assert place_name(48.8584, 2.2945) == ""
    metadata._gazetteer.cache_clear()
