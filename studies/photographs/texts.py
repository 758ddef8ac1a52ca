"""Texts without pictures, for a caption encoder to understand.

Captions of a training split have a few thousand words. These texts have tens of thousands: other
people's captions, the noun phrases of all captions, and WordNet's names and glosses of things. A
sentence encoder understands them, and teaches a caption encoder.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from hasse.models.datasets.source import read_text
from hasse.models.files import write_atomically
from hasse.models.vocabulary import words
from hasse.studies.photographs.classes import article
from hasse.studies.wordnet.lexicon import Lexicon
from hasse.studies.wordnet.phrases import phrases, tagged
from hasse.studies.wordnet.synsets import AbstractionError

MOST_WORDS = 28_000
_LEAST = 2  # a word or a phrase that comes once in captions is often a misprint
_NAMES, _LONGEST = 4, 14  # names of a synset, and words of a gloss
_PLAIN = re.compile(r"[a-z][a-z' -]+")


def collect(
    captions: Sequence[str],
    lexicon: Lexicon,
    others: Iterable[str] = (),
    most_words: int = MOST_WORDS,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[str]:
    """Return captions and texts made of at most so many words, each text once.

    Args:
        captions: all of them are kept, and so are their usual words.
        others: texts that are kept with all of their words.
    """
    usual = Counter(word for caption in captions for word in words(caption))
    found: Counter[str] = Counter()
    for number, caption in enumerate(captions, start=1):
        for phrase in phrases(tagged(caption, lexicon), lexicon):
            found.update({phrase.noun, phrase.text})
        progress(number, len(captions))
    kept = list(others)
    known = dict.fromkeys(word for word, times in usual.most_common() if times >= _LEAST)
    known |= dict.fromkeys(word for text in kept for word in words(text))
    for word, _ in _usual(lexicon).most_common():
        if len(known) >= most_words:
            break
        known.setdefault(word)
    texts = [
        *captions,
        *kept,
        *(phrase for phrase, times in found.most_common() if times >= _LEAST),
        *known,
        *(text for text in _named_things(lexicon) if all(word in known for word in words(text))),
    ]
    return list(dict.fromkeys(texts))


def read_texts(path: Path) -> list[str]:
    """Read a file of a text a line, each once; the part of a line before a tab is a name.

    Raises:
        AbstractionError: it is not there, or is empty.
    """
    if not path.is_file():
        raise AbstractionError(f"there is no file {path}: it should hold a text a line")
    lines = read_text(path, AbstractionError).splitlines()
    found = dict.fromkeys(line.rpartition("\t")[2].strip() for line in lines)
    found.pop("", None)
    return list(found)


def write_texts(path: Path, texts: Iterable[str]) -> None:
    """Write a file of a text a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (" ".join(text.split()) + "\n" for text in texts)
    write_atomically(path, "".join(lines).encode())


def _usual(lexicon: Lexicon) -> Counter[str]:
    """Count how usual words are: names of things, words of glosses, and frequent words."""
    found: Counter[str] = Counter()
    for gloss in lexicon.glosses.values():
        found.update(word for word in words(gloss) if word.isalpha())
    for (word, part), times in lexicon.counts.items():
        if word.isalpha():
            found[word] += 2 * times if part == "noun" else times
    for synset in _things(lexicon):
        for name in lexicon.words[synset][:_NAMES]:
            if name.isalpha():
                found[name] += 2
    return found


def _named_things(lexicon: Lexicon) -> Iterator[str]:
    for synset in _things(lexicon):
        names = [name.replace("_", " ") for name in lexicon.words[synset][:_NAMES]]
        names = [name for name in names if _PLAIN.fullmatch(name)]
        yield from map(article, names)
        gloss = lexicon.glosses[synset]
        if names and len(gloss.split()) <= _LONGEST:
            yield f"{article(names[0])}, {gloss}"


def _things(lexicon: Lexicon) -> Iterator[str]:
    """Yield the synsets of physical things."""
    seen: dict[str, bool] = {}

    def is_physical(synset: str) -> bool:
        if synset not in seen:
            seen[synset] = "physical_entity" in lexicon.words[synset] or any(
                map(is_physical, lexicon.above[synset])
            )
        return seen[synset]

    return filter(is_physical, lexicon.words)
