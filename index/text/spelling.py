"""Other words for one that no text contains: near spellings, and plural and singular."""

from __future__ import annotations

import string
from collections.abc import Iterable, Iterator

_SHORTEST_SINGULAR = 3
_SHORTEST_MISSPELT, _LONG = 4, 7  # letters
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


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the first of the known words with the fewest edits: one, or two of a long word.

    The first letter of a misspelt word is taken to be right.
    """
    most = 2 if len(word) >= _LONG else 1
    if len(word) < _SHORTEST_MISSPELT or not word.isalpha():
        return None
    best: tuple[int, str] | None = None
    for other in known:
        if other[:1] == word[0] and abs(len(other) - len(word)) <= most and other.isalpha():
            edits = _edits(word, other)
            if edits <= most and (best is None or edits < best[0]):
                best = edits, other
    return best[1] if best else None


def _edits(one: str, other: str) -> int:
    """Return the number of letters to add, remove, replace or exchange (Damerau 1964)."""
    before, last = [0] * (len(other) + 1), list(range(len(other) + 1))
    for at, letter in enumerate(one, 1):
        row = [at]
        for to, new in enumerate(other, 1):
            edits = min(last[to] + 1, row[-1] + 1, last[to - 1] + (letter != new))
            if at > 1 < to and letter == other[to - 2] and one[at - 2] == new:
                edits = min(edits, before[to - 2] + 1)
            row.append(edits)
        before, last = last, row
    return last[-1]


def _letters(word: str) -> str:
    blocks = sorted({ord(letter) // _BLOCK for letter in word if not letter.isascii()})
    others = (chr(block * _BLOCK + at) for block in blocks for at in range(_BLOCK))
    ascii_letters = string.ascii_lowercase if word.isascii() else ""
    return ascii_letters + "".join(new for new in others if new.isalpha() and new.islower())
