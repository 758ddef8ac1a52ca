"""Writes images as an Atom feed (RFC 4287)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote
from xml.etree.ElementTree import Element, SubElement, tostring

from hasse.index.types import DescribedImage
from hasse.service.addresses import address, image_url
from hasse.service.core.records import instant

MEDIA_TYPE = "application/atom+xml"
ENTRIES = 50
_NAMESPACE = "http://www.w3.org/2005/Atom"
# Characters that XML 1.0 has no way to write.
_UNWRITABLE = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class Entry:
    """An image of a feed; `added` is in milliseconds since 1970."""

    id: int
    sha256: str
    title: str
    summary: str
    added: int

    @classmethod
    def of(cls, image: DescribedImage) -> Entry:
        """Return an image of the collection."""
        row, captions = image.row, "\n".join(one.text for one in image.captions)
        return cls(row.id, row.sha256, row.file_name, captions, row.added or 0)


def atom(title: str, here: str, entries: Sequence[Entry], since: int) -> bytes:
    """Return a feed. `here` is its address, `since` its date where it has no entries.

    Names do not depend on the address of the service: a reader knows an image again.
    """
    feed = Element("feed", xmlns=_NAMESPACE)
    _texts(feed, id=f"urn:hasse:search:{quote(title, safe='')}", title=title)
    _texts(feed, updated=instant(max((one.added for one in entries), default=since)))
    _texts(SubElement(feed, "author"), name="Hasse")
    SubElement(feed, "link", rel="self", type=MEDIA_TYPE, href=here)
    for one in entries:
        name = f"urn:sha256:{one.sha256}" if one.sha256 else f"urn:hasse:image:{one.id}"
        entry = SubElement(feed, "entry")
        _texts(entry, id=name, title=one.title, updated=instant(one.added), summary=one.summary)
        SubElement(entry, "link", href=address(f"/?image={one.id}"))
        SubElement(entry, "link", rel="enclosure", href=image_url(one.id))
    return bytes(tostring(feed, "utf-8", xml_declaration=True))


def _texts(parent: Element, **texts: str) -> None:
    for name, text in texts.items():
        SubElement(parent, name).text = _UNWRITABLE.sub("\ufffd", text)
