"""Other words for one that no text contains: near spellings, and plural and singular."""

from __future__ import annotations

import string
from collections.abc import Iterator

_SHORTEST_SINGULAR = 3
_BLOCK = 64  # approximate size of a block of letters of another alphabet


def inflections(word: str) -> list[str]:
    """Return the regular plurals of an English word, and its singular if it may be a plural."""
    singulars = [word.removesuffix(ending) for ending in ("s", "es") if word.endswith(ending)]
    others = [one for one in singulars if len(one) >= _SHORTEST_SINGULAR and one[-1] != "s"]
    return [f"{word}s", f"{word}es", *others]


def off_by_one(word: str) -> Iterator[str]:
    """Yield the words that differ by one letter, first those with two letters exchanged."""
    letters = _letters(word)
    candidates = dict.fromkeys(
        [
            *(word[:at] + word[at + 1] + word[at] + word[at + 2 :] for at in range(len(word) - 1)),
            *(word[:at] + word[at + 1 :] for at in range(len(word))),
            *(word[:at] + new + word[at:] for at in range(len(word) + 1) for new in letters),
            *(word[:at] + new + word[at + 1 :] for at in range(len(word)) for new in letters),
        ]
    )
    yield from (candidate for candidate in candidates if candidate != word)


def _letters(word: str) -> str:
    blocks = sorted({ord(letter) // _BLOCK for letter in word if not letter.isascii()})
    others = (chr(block * _BLOCK + at) for block in blocks for at in range(_BLOCK))
    ascii_letters = string.ascii_lowercase if word.isascii() else ""
    return ascii_letters + "".join(new for new in others if new.isalpha() and new.islower())
