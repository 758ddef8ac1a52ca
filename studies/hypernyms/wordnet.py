"""WordNet's own database file of nouns, `data.noun` (wndb(5WN) describes the format)."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from hasse.models.datasets.source import read_text
from hasse.studies.hypernyms.taxonomy import Concept, HypernymError, Taxonomy

FILE_NAME = "data.noun"
HYPERNYM = frozenset({"@", "@i"})  # is a kind of, is an instance of

_OFFSET = re.compile(r"\d{8}")


def read(path: Path) -> Taxonomy:
    """Read the nouns of WordNet and their hypernyms, "is an instance of" among them.

    Args:
        path: `data.noun`, or the folder that holds it.

    Raises:
        HypernymError: there is no such file, a line is not of the format, a pointer leads to no
            synset, or the hypernyms go round in a circle; the place is named.
    """
    file = path / FILE_NAME if path.is_dir() else path
    concepts: list[Concept] = []
    numbers: dict[str, int] = {}
    pointers: list[tuple[int, str, int]] = []  # concept, offset of a hypernym, line
    for line_number, line in enumerate(_lines(file, path), start=1):
        if line.startswith("  ") or not line.strip():  # the licence
            continue
        try:
            concept, above = _synset(line)
        except (ValueError, IndexError) as error:
            raise HypernymError(
                f"{file}, line {line_number} is no synset ({error}): the file is damaged, or not "
                f"WordNet's {FILE_NAME}"
            ) from None
        if concept.key in numbers:
            raise HypernymError(f"{file}, line {line_number}: synset {concept.key} comes twice")
        numbers[concept.key] = len(concepts)
        pointers += [(len(concepts), offset, line_number) for offset in above]
        concepts.append(concept)
    if not concepts:
        raise HypernymError(f"{file} holds no synset: give WordNet's {FILE_NAME}")
    for below, offset, line_number in pointers:
        if offset not in numbers:
            raise HypernymError(
                f"{file}, line {line_number}: {concepts[below].name} ({concepts[below].key}) "
                f"points to {offset} as its hypernym, and there is no such synset: the file is "
                f"not whole, fetch it again"
            )
    edges = sorted({(below, numbers[offset]) for below, offset, _ in pointers})
    return Taxonomy(concepts, np.array(edges, dtype=np.int64).reshape(-1, 2))


def _lines(file: Path, asked: Path) -> list[str]:
    if not file.exists():
        what = f"{asked} holds no {FILE_NAME}" if file != asked else f"there is no file {file}"
        raise HypernymError(
            f"{what}: name the folder of WordNet's database files "
            f"(on Debian: apt-get install wordnet-base, then /usr/share/wordnet)"
        )
    return read_text(file, HypernymError).split("\n")


def _synset(line: str) -> tuple[Concept, list[str]]:
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
    above = [
        pointers[at + 1]
        for at in range(0, len(pointers), 4)
        if pointers[at] in HYPERNYM and pointers[at + 2] == "n"
    ]
    return Concept(offset, words, gloss.strip()), above
