"""Metadata of a picture: texts and facts from its EXIF, IPTC and XMP, or from a sidecar.

A picture's sidecars are `beach.jpg.xmp` and `beach.xmp` beside `beach.jpg`. Texts of all sources
count. If facts contradict each other, the first source decides: the sidecar with the whole name,
the other sidecar, then XMP, IPTC and EXIF of the file. Unreadable parts are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any
from xml.etree.ElementTree import Element

from defusedxml import ElementTree
from PIL import ExifTags, Image, IptcImagePlugin

from hasse.models.images.codecs import header_of
from hasse.models.spelling import visible

TEXT_CHARACTERS = 10_000  # of a title or a description; the rest is left out
KEYWORD_CHARACTERS = 200
KEYWORDS = 1_000
_SIDECAR_BYTES = 8 << 20
_XMP_TAG = 700  # of TIFF
# Prefixes of properties below, by namespace. Other namespaces are ignored.
_PREFIXES = {
    "http://purl.org/dc/elements/1.1/": "dc",
    "http://ns.adobe.com/xap/1.0/": "xmp",
    "http://ns.adobe.com/photoshop/1.0/": "photoshop",
    "http://ns.adobe.com/exif/1.0/": "exif",
    "http://ns.adobe.com/tiff/1.0/": "tiff",
    "http://ns.adobe.com/exif/1.0/aux/": "aux",
    "http://ns.adobe.com/lightroom/1.0/": "lr",
    "http://www.digikam.org/ns/1.0/": "digiKam",
    "http://iptc.org/std/Iptc4xmpCore/1.0/xmlns/": "Iptc4xmpCore",
    "http://www.metadataworkinggroup.com/schemas/regions/": "mwg-rs",
    "urn:x-hasse:xmp/": "hasse",
}
_RDF = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}"
_DEGREES = re.compile(r"(\d+),(\d+)(?:,(\d+)|(\.\d+))?([NSEW])")
_USER_COMMENT = {b"ASCII\0\0\0": "utf-8", b"UNICODE\0": "utf-16"}
_WINDOWS_TEXTS = {0x9C9B: "title", 0x9C9C: "description", 0x9C9E: "keyword", 0x9C9F: "description"}
_IPTC_TEXTS = {
    5: "title",
    105: "title",
    120: "description",
    25: "keyword",
    92: "place",
    90: "place",
    95: "place",
    101: "place",
}
_XMP_TEXTS = {
    "dc:title": "title",
    "photoshop:Headline": "title",
    "dc:description": "description",
    "dc:subject": "keyword",
    "lr:hierarchicalSubject": "keyword",
    "digiKam:TagsList": "keyword",
    "mwg-rs:Name": "keyword",  # of a face
    "Iptc4xmpCore:Location": "place",
    "photoshop:City": "place",
    "photoshop:State": "place",
    "photoshop:Country": "place",
}
_HIERARCHIES = ("lr:hierarchicalSubject", "digiKam:TagsList")  # of keywords: Places|Berlin
_SEPARATORS = re.compile(r"[|/]")


@dataclass(slots=True)
class PictureMetadata:
    """Metadata of a picture.

    Attributes:
        texts: by kind ("title", "description", "keyword", "place"), in order, without duplicates.
        camera, lens: maker and model.
        rating: 0 to 5 stars, -1 for a rejected picture.
        position: latitude and longitude in degrees.
        faults: errors of unreadable sidecars, by their name.
    """

    texts: dict[str, list[str]] = field(default_factory=dict)
    camera: str = ""
    lens: str = ""
    rating: int | None = None
    position: tuple[float, float] | None = None
    faults: dict[str, str] = field(default_factory=dict)

    def add_text(self, kind: str, text: object) -> None:
        """Add a text, shortened to the limits; ignore other values."""
        if not isinstance(text, str):
            return
        plain = " ".join(_visible(text[: 2 * TEXT_CHARACTERS]).split())
        plain = plain[: KEYWORD_CHARACTERS if kind == "keyword" else TEXT_CHARACTERS]
        texts = self.texts.get(kind, [])
        if plain and plain not in texts and len(texts) < KEYWORDS:
            self.texts[kind] = [*texts, plain]

    def add(self, other: PictureMetadata) -> None:
        """Add the metadata of a source with lower priority."""
        for kind, texts in other.texts.items():
            for text in texts:
                self.add_text(kind, text)
        self.add_facts(other.camera, other.lens, other.rating, other.position)

    def add_facts(
        self,
        camera: str = "",
        lens: str = "",
        rating: object = None,
        position: Sequence[float] | None = None,
    ) -> None:
        """Add facts that earlier sources do not have."""
        self.camera = self.camera or " ".join(_visible(camera).split())[:KEYWORD_CHARACTERS]
        self.lens = self.lens or " ".join(_visible(lens).split())[:KEYWORD_CHARACTERS]
        if self.rating is None:
            with suppress(TypeError, ValueError, OverflowError):
                stars = int(float(rating))  # type: ignore[arg-type]
                self.rating = stars if -1 <= stars <= 5 else None
        if self.position is None and position is not None and _is_on_earth(*position):
            self.position = (position[0], position[1])


def read_sidecars(sidecars: Iterable[Path]) -> PictureMetadata:
    """Read sidecars, in order of priority."""
    metadata = PictureMetadata()
    for sidecar in sidecars:
        try:
            if sidecar.stat().st_size > _SIDECAR_BYTES:
                raise ValueError(f"more than {_SIDECAR_BYTES:,} bytes")
            _read_xmp(sidecar.read_bytes(), metadata)
        # Parsers may raise any error on files of other programs.
        except Exception as error:
            metadata.faults[sidecar.name] = str(error) or type(error).__name__
    return metadata


def metadata_in(file: IO[bytes]) -> PictureMetadata:
    """Read the metadata of a picture's file, without decoding its pixels."""
    metadata = PictureMetadata()
    # Pillow may raise any error on damaged metadata; the rest may be readable.
    with suppress(Exception):
        header = header_of(file)
        if header is None:
            return metadata
        picture, exif = header
        info = picture.info
        xmp = info.get("xmp") or info.get("XML:com.adobe.xmp") or exif.get(_XMP_TAG) or b""
        with suppress(Exception):
            _read_xmp(xmp.encode() if isinstance(xmp, str) else xmp, metadata)
        with suppress(Exception):
            _read_iptc(IptcImagePlugin.getiptcinfo(picture) or {}, metadata)
        with suppress(Exception):
            _read_exif(exif, metadata)
    return metadata


def _read_xmp(packet: bytes, metadata: PictureMetadata) -> None:
    """Read an XMP packet; raises the errors of XML parsers."""
    if not packet.strip():
        return
    root = ElementTree.fromstring(packet.strip(b"\0 \r\n\t"), forbid_dtd=True)
    properties: dict[str, list[str]] = {}
    for name, text in _properties(root):
        properties.setdefault(name, []).append(text)
    generated = properties.get("hasse:generated", [])
    for name, kind in _XMP_TEXTS.items():
        for text in properties.get(name, ())[: 2 * KEYWORDS]:
            if text not in generated:
                for part in _SEPARATORS.split(text) if name in _HIERARCHIES else [text]:
                    metadata.add_text(kind, part)

    def first(name: str) -> str:
        return next(iter(properties.get(name, ())), "")

    latitude, longitude = map(_degrees, (first("exif:GPSLatitude"), first("exif:GPSLongitude")))
    metadata.add_facts(
        _camera(first("tiff:Make"), first("tiff:Model")),
        first("aux:Lens"),
        first("xmp:Rating") or None,
        None if latitude is None or longitude is None else (latitude, longitude),
    )


def _properties(root: Element) -> Iterator[tuple[str, str]]:
    """Yield the name and text of all properties below an element, at any depth."""
    for element in root.iter():
        for name, value in element.attrib.items():
            if property_name := _property_name(name):
                yield property_name, value
        if property_name := _property_name(element.tag):
            items = list(element.iter(f"{_RDF}li"))
            for item in items or [element]:
                if item.text and item.text.strip():
                    yield property_name, item.text.strip()


def _property_name(name: object) -> str:
    if not isinstance(name, str):  # a comment
        return ""
    namespace, _, local = name.lstrip("{").partition("}")
    return f"{_PREFIXES[namespace]}:{local}" if namespace in _PREFIXES else ""


def _degrees(text: str) -> float | None:
    """Read a coordinate of XMP, such as 52,30.5N or 52,30,30N."""
    match = _DEGREES.fullmatch(text.strip())
    if match is None:
        return None
    degrees, minutes, seconds, fraction, side = match.groups()
    value = int(degrees) + (int(minutes) + float(fraction or 0)) / 60 + int(seconds or 0) / 3600
    return -value if side in "SW" else value


def _read_iptc(records: Mapping[tuple[int, int], Any], metadata: PictureMetadata) -> None:
    for (record, dataset), value in records.items():
        if record == 2 and dataset in _IPTC_TEXTS:
            for text in value if isinstance(value, list) else [value]:
                metadata.add_text(_IPTC_TEXTS[dataset], _decode_text(text))


def _decode_text(text: bytes) -> str:
    """Decode bytes of unknown encoding as UTF-8, else as Latin-1."""
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError:
        return text.decode("latin-1")


def _read_exif(exif: Image.Exif, metadata: PictureMetadata) -> None:
    exif_block = exif.get_ifd(ExifTags.IFD.Exif)
    metadata.add_text("description", _text(exif.get(ExifTags.Base.ImageDescription)))
    comment = exif_block.get(ExifTags.Base.UserComment)
    if isinstance(comment, bytes) and comment[:8] in _USER_COMMENT:
        metadata.add_text("description", comment[8:].decode(_USER_COMMENT[comment[:8]], "replace"))
    for tag, kind in _WINDOWS_TEXTS.items():
        value = exif.get(tag)
        if isinstance(value, bytes | tuple):
            text = bytes(value).decode("utf-16-le", "replace").strip("\0")
            for part in text.split(";") if kind == "keyword" else [text]:
                metadata.add_text(kind, part)
    metadata.add_facts(
        _camera(_text(exif.get(ExifTags.Base.Make)), _text(exif.get(ExifTags.Base.Model))),
        _text(exif_block.get(ExifTags.Base.LensModel)),
        exif.get(0x4746),  # Rating, which Pillow does not name
    )
    metadata.add_facts(position=_position(exif.get_ifd(ExifTags.IFD.GPSInfo)))


def _text(value: object) -> str:
    """Return a text of EXIF. Pillow decodes it as Latin-1, but many programs write UTF-8."""
    if not isinstance(value, str):
        return ""
    with suppress(UnicodeError):
        return value.encode("latin-1").decode("utf-8").strip("\0 ")
    return value.strip("\0 ")


def _camera(make: str, model: str) -> str:
    """Return the name of a camera, without repeating its maker."""
    begins = make and model.casefold().startswith(make.split(maxsplit=1)[0].casefold())
    return model if begins else f"{make} {model}".strip()


def _position(gps: Mapping[int, Any]) -> tuple[float, float] | None:
    latitude, longitude = (
        _angle(gps.get(tag), gps.get(side))
        for tag, side in (
            (ExifTags.GPS.GPSLatitude, ExifTags.GPS.GPSLatitudeRef),
            (ExifTags.GPS.GPSLongitude, ExifTags.GPS.GPSLongitudeRef),
        )
    )
    return None if latitude is None or longitude is None else (latitude, longitude)


def _angle(parts: Any, side: object) -> float | None:
    try:
        degrees, minutes, seconds = (float(part) for part in parts)
    except (TypeError, ValueError, ZeroDivisionError):
        return None
    value = degrees + minutes / 60 + seconds / 3600
    return -value if str(side).strip("\0 ").upper() in ("S", "W") else value


def _is_on_earth(latitude: float, longitude: float) -> bool:
    """Return whether a position is valid. Devices without a position write 0, 0."""
    on_earth = -90 <= latitude <= 90 and -180 <= longitude <= 180
    return on_earth and (latitude, longitude) != (0, 0)


def _visible(text: str) -> str:
    """Replace characters that databases and terminals cannot show by spaces."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(character if character.isprintable() else " " for character in visible(text))
