"""Sidecars: XMP files beside pictures, by name, and written by Hasse."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from xml.etree.ElementTree import Element, ParseError, SubElement, register_namespace
from xml.sax.saxutils import escape

from defusedxml import ElementTree

SUFFIX = ".xmp"
_OURS = b"urn:x-hasse:xmp/"
_RDF = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}"
_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
_LISTS = {
    "description": "{http://purl.org/dc/elements/1.1/}description",
    "subject": "{http://purl.org/dc/elements/1.1/}subject",
    "generated": "{urn:x-hasse:xmp/}generated",
}
_BEGIN = '<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>\n'
_END = '\n<?xpacket end="w"?>\n'
_PACKET = """<x:xmpmeta xmlns:x="adobe:ns:meta/" x:xmptk="Hasse">
 <rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
  <rdf:Description rdf:about="" xmlns:dc="http://purl.org/dc/elements/1.1/"
    xmlns:hasse="urn:x-hasse:xmp/">
   <dc:description><rdf:Alt><rdf:li xml:lang="x-default">{description}</rdf:li></rdf:Alt>
   </dc:description>
   <dc:subject><rdf:Bag>{keywords}</rdf:Bag></dc:subject>
   <hasse:generated><rdf:Bag>{generated}</rdf:Bag></hasse:generated>
  </rdf:Description>
 </rdf:RDF>
</x:xmpmeta>"""


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

    They are marked as generated, so `read_metadata` does not read them as human texts. A sidecar
    that we wrote keeps all that others wrote into it since, and does not get back what they
    removed. Returns False, without writing, if nothing changes, or if another program's sidecar is
    there: a second one would hide it from programs that read only one.
    """
    path = picture.with_name(picture.name + SUFFIX)
    description = "\n".join(captions)
    before = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
    if _OURS in before:
        packet = _merged(before, description, captions, keywords)
    elif path.is_symlink() or path.exists() or sidecars_of(picture):
        return False
    else:
        packet = _PACKET.format(
            description=escape(description),
            keywords=_items(keywords),
            generated=_items([*dict.fromkeys([description, *captions, *keywords])]),
        )
        packet = f"{_BEGIN}{packet}{_END}"
    if packet is None:
        return False
    mode = (path if before else picture).stat().st_mode
    unfinished = path.with_name(f".{path.name}.part")
    unfinished.write_text(packet, encoding="utf-8")
    unfinished.chmod(mode & 0o666 | 0o600)
    unfinished.replace(path)
    return True


def _items(texts: Iterable[str]) -> str:
    return "".join(f"<rdf:li>{escape(text)}</rdf:li>" for text in texts)


def _merged(
    packet: bytes, description: str, captions: Sequence[str], keywords: Sequence[str]
) -> str | None:
    """Return our packet with other generated texts; None if nothing changes, or it is damaged."""
    try:
        root = ElementTree.fromstring(packet.strip(b"\0 \r\n\t"), forbid_dtd=True)
    except (ParseError, ValueError):
        return None
    before = {name: [item.text or "" for item in _items_of(root, name)] for name in _LISTS}
    ours, theirs = set(before["generated"]), set[str]()
    after: dict[str, list[str]] = {}
    for name, texts in (("description", [description]), ("subject", keywords)):
        edited = [text for text in before[name] if text not in ours]
        # A picture has one description; and what people removed stays away.
        new = (
            [] if name == "description" and edited else [text for text in texts if text not in ours]
        )
        after[name] = [text for text in before[name] if text not in ours or text in texts]
        after[name] += [text for text in new if text not in edited]
        theirs.update(edited)
    generated = dict.fromkeys([description, *captions, *keywords])
    after["generated"] = [text for text in generated if text not in theirs]
    if all(set(before[name]) == set(after[name]) for name in _LISTS):
        return None
    for name, texts in after.items():
        _set_items(root, name, texts)
    for prefix, namespace in re.findall(
        r'xmlns:([\w-]+)="([^"]+)"', packet.decode("utf-8", "ignore")
    ):
        with suppress(ValueError):  # a prefix that the serializer reserves
            register_namespace(prefix, namespace)
    return f"{_BEGIN}{ElementTree.tostring(root, encoding='unicode')}{_END}"


def _items_of(root: Element, name: str) -> list[Element]:
    return [item for of in root.iter(_LISTS[name]) for item in of.iter(f"{_RDF}li")]


def _set_items(root: Element, name: str, texts: Sequence[str]) -> None:
    """Remove the items of a list whose texts are not in `texts`, and add those that are missing."""
    present = {item.text for item in _items_of(root, name)}
    for each in root.iter(_LISTS[name]):
        for parent in list(each.iter()):
            for item in parent.findall(f"{_RDF}li"):
                if item.text not in texts:
                    parent.remove(item)
    kind = "Alt" if name == "description" else "Bag"
    around = root.find(f".//{_LISTS[name]}")
    if around is None:
        around = SubElement(next(root.iter(f"{_RDF}Description"), root), _LISTS[name])
    items = around.find(f"{_RDF}{kind}")
    items = SubElement(around, f"{_RDF}{kind}") if items is None else items
    for text in texts:
        if text not in present:
            language = {_LANGUAGE: "x-default"} if name == "description" else {}
            SubElement(items, f"{_RDF}li", language).text = text
