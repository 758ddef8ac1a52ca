"""Writes images as an Atom feed (RFC 4287)."""

from __future__ import annotations

import re
from collections.abc import Sequence
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


def atom(title: str, url: str, images: Sequence[DescribedImage], since: int) -> bytes:
    """Return a feed of images. `url` is its address, `since` its date if it has no images.

    Times are in milliseconds since 1970. The ids of entries do not depend on the address of the
    service, so that a reader recognizes an image.
    """
    feed = Element("feed", xmlns=_NAMESPACE)
    _add_texts(feed, id=f"urn:hasse:search:{quote(title, safe='')}", title=title)
    newest = max((image.row.added or 0 for image in images), default=since)
    _add_texts(feed, updated=instant(newest))
    _add_texts(SubElement(feed, "author"), name="Hasse")
    SubElement(feed, "link", rel="self", type=MEDIA_TYPE, href=url)
    for row, captions, _ in images:
        urn = f"urn:sha256:{row.sha256}" if row.sha256 else f"urn:hasse:image:{row.id}"
        summary = "\n".join(caption.text for caption in captions)
        entry = SubElement(feed, "entry")
        _add_texts(entry, id=urn, title=row.file_name, updated=instant(row.added or 0))
        _add_texts(entry, summary=summary)
        SubElement(entry, "link", href=address(f"/?image={row.id}"))
        SubElement(entry, "link", rel="enclosure", href=image_url(row.id))
    return bytes(tostring(feed, "utf-8", xml_declaration=True))


def _add_texts(parent: Element, **texts: str) -> None:
    for name, text in texts.items():
        SubElement(parent, name).text = _UNWRITABLE.sub("\ufffd", text)
