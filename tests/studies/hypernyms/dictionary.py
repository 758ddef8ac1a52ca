"""A small hierarchy in the format of WordNet's data.noun."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

LICENCE = "  1 This software and database is being provided to you\n"

# Each word and its hypernyms; those with "@i" are instances.
SMALL: Mapping[str, Sequence[str]] = {
    "entity": (),
    "object": ("entity",),
    "animal": ("object",),
    "pet": ("object",),
    "dog": ("animal", "pet"),
    "poodle": ("dog",),
    "cat": ("animal", "pet"),
    "Rex": ("@i dog",),
}


def offset(word: str, words: Mapping[str, Sequence[str]] = SMALL) -> str:
    """Return the offset under which a word is written."""
    return f"{1000 + list(words).index(word):08}"


def lines(words: Mapping[str, Sequence[str]] = SMALL) -> list[str]:
    """Return the lines of the file, the licence first."""
    written = [LICENCE.rstrip("\n")]
    for word, above in words.items():
        pointers = []
        for name in above:
            symbol, _, target = name.rpartition(" ")
            pointers.append(f"{symbol or '@'} {offset(target, words)} n 0000")
        # What is no hypernym is not read as one: a part, and a verb that it is derived from.
        pointers += ["%p 00000001 n 0000", "+ 00000002 v 0101"]
        written.append(
            f"{offset(word, words)} 05 n 02 {word} 0 {word}_thing 1 "
            f'{len(pointers):03} {" ".join(pointers)} | what a {word} is; "a {word}!"  '
        )
    return written


def write(folder: Path, words: Mapping[str, Sequence[str]] = SMALL) -> Path:
    """Write `data.noun` into a folder, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "data.noun").write_text("\n".join(lines(words)) + "\n", encoding="utf-8")
    return folder


def tree(fan: int = 4, depth: int = 4) -> dict[str, list[str]]:
    """Return a tree of words: each but those of the last level has `fan` under it."""
    words: dict[str, list[str]] = {"w": []}
    level = ["w"]
    for _ in range(depth):
        below = [f"{word}{at}" for word in level for at in range(fan)]
        words |= {word: [word[:-1]] for word in below}
        level = below
    return words
