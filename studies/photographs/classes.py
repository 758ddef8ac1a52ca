"""ImageNet's 1,000 classes, which are synsets of WordNet 3.0, and the texts true of each."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from hasse.models.datasets.source import read_text
from hasse.models.errors import pip_install
from hasse.models.files import write_atomically
from hasse.studies.wordnet.lexicon import Lexicon
from hasse.studies.wordnet.synsets import AbstractionError
from hasse.studies.wordnet.words import word_set

_NAMES = 3  # the most usual names of each synset
# Words that are true of nearly every picture.
EMPTY = word_set(
    """
    entity physical_entity object whole matter substance thing abstraction artifact living_thing
    organism unit causal_agent instrumentality part psychological_feature attribute relation group
    cognition content communication commodity consumer_goods solid covering device implement
    natural_object way creation
    """
)


@dataclass(frozen=True, slots=True)
class PictureClass:
    """The texts that are true of a picture of one class.

    Attributes:
        synset: its number in WordNet 3.0, such as 01440764.
        texts: names of the class and of all that it is a kind of.
        steps: the number of steps of each text above the class.
    """

    synset: str
    texts: tuple[str, ...]
    steps: tuple[int, ...]


def imagenet_classes(lexicon: Lexicon, synsets: Iterable[str]) -> list[PictureClass]:
    """Name classes by their synsets, and by all synsets above them.

    Raises:
        AbstractionError: the lexicon has not these synsets.
    """
    return [_named(lexicon, synset) for synset in synsets]


def imagenet_synsets() -> list[str]:
    """Return the synsets of ImageNet's classes, in the order of all classifiers.

    Raises:
        AbstractionError: timm, which lists them, is not installed.
    """
    if find_spec("timm") is None:
        raise AbstractionError(f"ImageNet's classes are listed by timm: {pip_install('timm')}")
    listed = files("timm").joinpath("data", "_info", "imagenet_synsets.txt")
    return [line.removeprefix("n") for line in listed.read_text(encoding="utf-8").split()]


def article(noun: str) -> str:
    """Return a noun with "a" or "an"."""
    return f"{'an' if noun[0].lower() in 'aeiou' else 'a'} {noun}"


def read_classes(path: Path) -> list[PictureClass]:
    """Read a file of `write_classes`.

    Raises:
        AbstractionError: it is not there, or holds something else.
    """
    if not path.is_file():
        raise AbstractionError(
            f"there is no file {path}: 'hasse study photographs classes' writes one"
        )
    try:
        rows = [json.loads(line) for line in read_text(path, AbstractionError).splitlines()]
        return [
            PictureClass(str(row["synset"]), tuple(row["texts"]), tuple(map(int, row["steps"])))
            for row in rows
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise AbstractionError(
            f"{path} does not hold classes ({error}): 'hasse study photographs classes' writes them"
        ) from None


def write_classes(path: Path, classes: Sequence[PictureClass]) -> None:
    """Write a file of a JSON object a class, in the order of the classifier."""
    rows = (json.dumps(asdict(one)) + "\n" for one in classes)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, "".join(rows).encode())


def _named(lexicon: Lexicon, synset: str) -> PictureClass:
    if synset not in lexicon.words:
        raise AbstractionError(f"WordNet has no noun {synset}: its version is not 3.0")
    found: dict[str, int] = {}
    for one, steps in lexicon.kinds(synset).items():
        names = lexicon.words[one]
        if names[0] in EMPTY:
            continue
        for name in names[:_NAMES]:
            plain = name.replace("_", " ")
            if len(plain) > 2 and not any(letter.isdigit() for letter in plain):
                found.setdefault(article(plain), steps)
                found.setdefault(plain, steps)
    return PictureClass(synset, tuple(found), tuple(found.values()))
