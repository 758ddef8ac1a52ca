"""Parts of speech, base forms and hypernyms of English words, from WordNet's database files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Self

from hasse.studies.wordnet.synsets import AbstractionError, database_lines, read_synsets

PartOfSpeech = Literal["noun", "verb", "adj"]
PARTS_OF_SPEECH: tuple[PartOfSpeech, ...] = ("noun", "verb", "adj")

# Endings and what the base form has in their place, the longest first.
_ENDINGS: Mapping[PartOfSpeech, tuple[tuple[str, str], ...]] = {
    "noun": (
        ("ches", "ch"),
        ("shes", "sh"),
        ("ses", "s"),
        ("xes", "x"),
        ("zes", "z"),
        ("men", "man"),
        ("ies", "y"),
        ("s", ""),
    ),
    "verb": (
        ("ies", "y"),
        ("ing", "e"),
        ("ing", ""),
        ("es", "e"),
        ("es", ""),
        ("ed", "e"),
        ("ed", ""),
        ("s", ""),
    ),
    "adj": (),
}
# In a key of cntlist.rev, such as dog%1:05:00::, the number of the part of speech.
_NUMBERED: Mapping[str, PartOfSpeech] = {"1": "noun", "2": "verb", "3": "adj", "5": "adj"}
# Senses of a noun, the most frequent first, whose hypernyms count.
_SENSES = 2


@dataclass(frozen=True, slots=True)
class Lexicon:
    """Words of WordNet.

    Attributes:
        senses: the synsets of a base form by part of speech, the most frequent first.
        irregular: base forms of irregular ones.
        counts: how often a base form was met in WordNet's annotated texts.
        words, above, glosses: of noun synsets: their words, the synsets directly above them, and
            what they mean.
    """

    senses: Mapping[PartOfSpeech, Mapping[str, tuple[str, ...]]]
    irregular: Mapping[PartOfSpeech, Mapping[str, str]]
    counts: Mapping[tuple[str, PartOfSpeech], int]
    words: Mapping[str, tuple[str, ...]]
    above: Mapping[str, tuple[str, ...]]
    glosses: Mapping[str, str]
    _known: dict[str, frozenset[str]] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read WordNet's database files.

        Raises:
            AbstractionError: one is missing, or is of another format.
        """
        senses, irregular = {}, {}
        counts: dict[tuple[str, PartOfSpeech], int] = defaultdict(int)
        words, above, glosses = {}, {}, {}
        try:
            for part in PARTS_OF_SPEECH:
                rows = [line.split() for line in _lines(folder, f"index.{part}")]
                senses[part] = {row[0]: tuple(row[-int(row[2]) :]) for row in rows}
                pairs = (line.split() for line in _lines(folder, f"{part}.exc"))
                irregular[part] = {pair[0]: pair[1] for pair in pairs}
            for line in _lines(folder, "cntlist.rev"):
                key, _, count = line.split()
                word, rest = key.split("%")
                if rest[0] in _NUMBERED:
                    counts[word, _NUMBERED[rest[0]]] += int(count)
            for synset in read_synsets(folder):
                words[synset.key] = tuple(word.lower() for word in synset.words)
                glosses[synset.key] = synset.gloss.partition(";")[0].strip()
                above[synset.key] = synset.above
        except (ValueError, IndexError) as error:
            raise AbstractionError(
                f"{folder} does not hold WordNet's database files ({error}): name the folder "
                f"with index.noun"
            ) from error
        return cls(senses, irregular, counts, words, above, glosses)

    def base(self, word: str, part: PartOfSpeech) -> str | None:
        """Return the base form of a word as that part of speech, or None if it is none."""
        known = self.senses[part]
        if word in known:
            return word
        if word in self.irregular[part]:
            return self.irregular[part][word]
        for ending, base in _ENDINGS[part]:
            stem = word.removesuffix(ending)
            if stem != word and len(stem) > 1 and stem + base in known:
                return stem + base
        return None

    def frequency(self, word: str, part: PartOfSpeech) -> float:
        """Tell how usual a word is as that part of speech; 0 if it is none."""
        base = self.base(word, part)
        return 0 if base is None else self.counts.get((base, part), 0) + 0.5

    def hypernyms(self, noun: str) -> list[str]:
        """Return the synsets above the usual sense of a noun, the nearest first."""
        base = self.base(noun.replace(" ", "_"), "noun")
        return [] if base is None else _closure(self.senses["noun"][base][:1], self.above)[1:]

    def kinds(self, synset: str) -> dict[str, int]:
        """Return a synset and all above it, each with the steps that it takes to get there."""
        steps = {synset: 0}
        for one in (reached := [synset]):  # grows while it is read
            new = [above for above in self.above[one] if above not in steps]
            steps |= dict.fromkeys(new, steps[one] + 1)
            reached += new
        return steps

    def implied(self, word: str) -> frozenset[str]:
        """Return the words that hold of whatever a word holds of: "puppy" implies "dog"."""
        if word not in self._known:
            base = self.base(word.replace(" ", "_"), "noun")
            names = {word, base or word}
            if base is not None:
                usual = self.senses["noun"][base][:_SENSES]
                names |= {name for one in _closure(usual, self.above) for name in self.words[one]}
            self._known[word] = frozenset(name.replace("_", " ") for name in names)
        return self._known[word]


def _closure(start: tuple[str, ...], above: Mapping[str, tuple[str, ...]]) -> list[str]:
    reached = list(start)
    for synset in reached:  # grows while it is read
        reached += [one for one in above[synset] if one not in reached]
    return reached


def _lines(folder: Path, name: str) -> list[str]:
    """Return the lines of a database file without those of its licence."""
    return [line for line in database_lines(folder / name) if line and not line.startswith("  ")]
