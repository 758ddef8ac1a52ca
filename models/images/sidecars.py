"""Sidecars: XMP files beside pictures, by name, and written by Hasse."""

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

    `files` are the names in its folder, if known. A link is not a sidecar, because it may lead out
    of the folder.
    """
    stems = (picture.name, picture.stem)
    names = [f"{stem}{suffix}" for stem in stems for suffix in (SUFFIX, SUFFIX.upper())]
    paths = [picture.with_name(name) for name in names if files is None or name in files]
    return [path for path in paths if _is_file(path) and not path.is_symlink()]


def _is_file(path: Path) -> bool:
    """Return whether a file exists; False if its name is too long."""
    try:
        return path.is_file()
    except OSError:
        return False


def stamp_of(sidecars: Iterable[Path]) -> str:
    """Return a text that changes when sidecars are added, removed or changed."""
    stamps = (
        f"{path.name}:{status.st_size}:{status.st_mtime_ns}"
        for path, status in ((path, path.stat()) for path in sidecars)
    )
    return ";".join(stamps) or "none"


def write_sidecar(picture: Path, captions: Sequence[str], keywords: Sequence[str]) -> bool:
    """Write generated captions and keywords to the XMP file beside a picture.

    They are marked as generated, so `read_metadata` does not read them as human texts. Returns
    False, without writing, if another program wrote the sidecar.
    """
    path = picture.with_name(picture.name + SUFFIX)
    if path.exists() and _OURS not in path.read_bytes():
        return False

    def items(texts: Sequence[str]) -> str:
        return "".join(f"<rdf:li>{escape(text)}</rdf:li>" for text in texts)

    description = "\n".join(captions)
    packet = _PACKET.format(
        description=escape(description),
        keywords=items(keywords),
        generated=items([*dict.fromkeys([description, *captions, *keywords])]),
    )
    unfinished = path.with_name(f".{path.name}.part")
    unfinished.write_text(packet, encoding="utf-8")
    unfinished.replace(path)
    return True
