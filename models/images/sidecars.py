"""XMP files beside pictures: which belong to a picture, and those that Hasse writes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

SUFFIX = ".xmp"
_OURS = b"urn:x-hasse:xmp/"
_PACKET = """<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>
<x:xmpmeta xmlns:x="adobe:ns:meta/" x:xmptk="Hasse">
 <rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
  <rdf:Description rdf:about="" xmlns:dc="http://purl.org/dc/elements/1.1/"
    xmlns:hasse="urn:x-hasse:xmp/">
   <dc:description><rdf:Alt><rdf:li xml:lang="x-default">{description}</rdf:li></rdf:Alt>
   </dc:description>
   <dc:subject><rdf:Bag>{keywords}</rdf:Bag></dc:subject>
   <hasse:generated><rdf:Bag>{generated}</rdf:Bag></hasse:generated>
  </rdf:Description>
 </rdf:RDF>
</x:xmpmeta>
<?xpacket end="w"?>
"""


def sidecars_of(picture: Path, files: Collection[str] | None = None) -> list[Path]:
    """Return the sidecars of a picture, the closest first.

    `files` are the names of its folder, where they are known. A link, which may lead out of the
    folder, is no sidecar.
    """
    stems = (picture.name, picture.stem)
    names = [f"{stem}{suffix}" for stem in stems for suffix in (SUFFIX, SUFFIX.upper())]
    places = [picture.with_name(name) for name in names if files is None or name in files]
    return [place for place in places if _is_file(place) and not place.is_symlink()]


def _is_file(place: Path) -> bool:
    """Return whether a file is there; none is where its name would be too long."""
    try:
        return place.is_file()
    except OSError:
        return False


def stamp_of(sidecars: Iterable[Path]) -> str:
    """Return a text that differs when other sidecars are there, or one has changed."""
    facts = [(path.name, path.stat()) for path in sidecars]
    return ";".join(f"{name}:{each.st_size}:{each.st_mtime_ns}" for name, each in facts) or "none"


def write_sidecar(picture: Path, captions: Sequence[str], keywords: Sequence[str]) -> bool:
    """Write generated captions and keywords to the XMP file beside a picture.

    They are marked as generated, so that `read_metadata` does not take them for a person's. A
    sidecar that Hasse did not write is left alone: then False is returned.
    """
    place = picture.with_name(picture.name + SUFFIX)
    if place.exists() and _OURS not in place.read_bytes():
        return False

    def items(texts: Sequence[str]) -> str:
        return "".join(f"<rdf:li>{escape(text)}</rdf:li>" for text in texts)

    description = "\n".join(captions)
    packet = _PACKET.format(
        description=escape(description),
        keywords=items(keywords),
        generated=items([*dict.fromkeys([description, *captions, *keywords])]),
    )
    unfinished = place.with_name(f".{place.name}.part")
    unfinished.write_text(packet, encoding="utf-8")
    unfinished.replace(place)
    return True
