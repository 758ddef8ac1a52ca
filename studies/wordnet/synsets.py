"""Synsets of nouns from WordNet's own database file, `data.noun` (wndb(5WN) has the format)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hasse.models.datasets.source import read_text
from hasse.models.errors import HasseError

FILE_NAME = "data.noun"
HYPERNYM = frozenset({"@", "@i"})  # is a kind of, is an instance of

_OFFSET = re.compile(r"\d{8}")


class AbstractionError(HasseError):
    """Word lists, chains or files of WordNet that cannot be read; the message has the remedy."""


@dataclass(frozen=True, slots=True)
class Synset:
    """Words that mean one thing.

    Attributes:
        key: its offset in the file, such as "02084071".
        above: the keys of its hypernyms.
        line: its number in the file.
    """

    key: str
    words: tuple[str, ...]
    gloss: str
    above: tuple[str, ...]
    line: int


def read_synsets(path: Path) -> Iterator[Synset]:
    """Read the nouns of WordNet, with "is an instance of" among their hypernyms.

    Args:
        path: `data.noun`, or the folder that holds it.

    Raises:
        AbstractionError: there is no such file, or a line has another format; it is named.
    """
    file = path / FILE_NAME if path.is_dir() else path
    for number, line in enumerate(database_lines(file), start=1):
        if line.startswith("  ") or not line.strip():  # the licence
            continue
        try:
            yield _synset(line, number)
        except (ValueError, IndexError) as error:
            raise AbstractionError(
                f"{file}, line {number} is no synset ({error}): the file is damaged, or not "
                f"WordNet's {FILE_NAME}"
            ) from None


def database_lines(file: Path) -> list[str]:
    """Return the lines of one of WordNet's files.

    Raises:
        AbstractionError: it is missing, or cannot be read.
    """
    if not file.exists():
        raise AbstractionError(
            f"there is no file {file}: name the folder of WordNet's database files "
            f"(on Debian: apt-get install wordnet-base, then /usr/share/wordnet)"
        )
    return read_text(file, AbstractionError).split("\n")


def _synset(line: str, number: int) -> Synset:
    """Read `offset file type words word id .. pointers symbol offset pos which .. | gloss`."""
    data, _, gloss = line.partition(" | ")
    fields = data.split()
    offset, kind = fields[0], fields[2]
    if not _OFFSET.fullmatch(offset):
        raise ValueError(f"'{offset[:20]}' is not an offset of eight digits")
    if kind != "n":
        raise ValueError(f"it is of type '{kind[:20]}', not a noun")
    word_count = int(fields[3], 16)
    if word_count < 1:
        raise ValueError("it has no words")
    first = 4 + 2 * word_count
    words = tuple(fields[4:first:2])
    pointer_count = int(fields[first])
    pointers = fields[first + 1 : first + 1 + 4 * pointer_count]
    if len(words) != word_count or len(pointers) != 4 * pointer_count:
        raise ValueError("it ends too early")
    above = tuple(
        pointers[at + 1]
        for at in range(0, len(pointers), 4)
        if pointers[at] in HYPERNYM and pointers[at + 2] == "n"
    )
    return Synset(offset, words, gloss.strip(), above, number)
