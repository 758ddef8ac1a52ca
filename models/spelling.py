"""One normalisation for names and one for words, however programs and people write them."""

from __future__ import annotations

import re
import unicodedata
from itertools import islice, product

# Soft hyphen, grapheme joiner, marks of direction, word joiner, byte-order mark, glyph variants.
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u180e\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff"
    "\ufe00-\ufe0f\U000e0100-\U000e01ef]"
)
# Spaces without width and joiners: within words of these scripts they mean nothing. In others they
# separate words, or change how letters are drawn.
_LETTER = "[A-Za-z\u00c0-\u024f\u0370-\u052f]"
_WITHIN_WORD = re.compile(f"(?<={_LETTER})[\u200b-\u200d]+(?={_LETTER})")
_MAX_SPELLINGS = 64


def visible(text: str) -> str:
    """Return a text without characters that nobody sees."""
    return text if text.isascii() else _WITHIN_WORD.sub("", _INVISIBLE.sub("", text))


def composed(name: str) -> str:
    """Return a name with one character for an accented letter; macOS and some disks write two."""
    return name if name.isascii() else unicodedata.normalize("NFC", name)


def spellings(path: str) -> list[str]:
    """Return how a path may be written on disks: each of its names as it is, composed or not."""
    if path.isascii():
        return [path]
    names = (
        dict.fromkeys([name, composed(name), unicodedata.normalize("NFD", name)])
        for name in path.split("/")
    )
    return list(map("/".join, islice(product(*names), _MAX_SPELLINGS)))
