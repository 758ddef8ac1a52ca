"""Words and their numbers.

An unknown word is looked up without accents, then as a form of a known word: "cafe" for "café",
"giraffe" for "giraffes", "break" for "broke". Training and queries do the same.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

from hasse.models.spelling import composed, visible

PADDING, UNKNOWN, END = 0, 1, 2
SPECIAL = ("<pad>", "<unk>", "<end>")

# Letters, digits and inner apostrophes; everything else separates. "man's" stays one word.
_WORD = re.compile(r"[a-z0-9]+(?:'[a-z0-9]+)*")

_HAN = "\u3005\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_HIRAGANA, _KATAKANA = "\u3041-\u309f", "\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
_MARK_CODES = range(0x300, 0x1F000)  # with all combining marks of Unicode

_SPELLING = str.maketrans(dict.fromkeys("’‘ʼ＇", "'"))
_ACCENTS = dict.fromkeys(range(0x300, 0x370))
_PLAIN_LETTERS = str.maketrans(
    {"æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ı": "i"}
)

# Endings of regular English forms, and of their base forms.
_ENDINGS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("ies", ("y", "ie")),
    ("ves", ("f", "fe")),
    ("es", ("e", "")),
    ("s", ("",)),
    ("ied", ("y",)),
    ("ed", ("e", "")),
    ("ying", ("ie",)),
    ("ing", ("e", "")),
    ("iest", ("y",)),
    ("est", ("e", "")),
    ("ier", ("y",)),
    ("er", ("e", "")),
)
# Rare irregular forms; frequent ones are in vocabularies themselves.
_PAIRS = """
    arisen:arise arose:arise awoke:awake awoken:awake bade:bid bidden:bid blew:blow broke:break
    clung:cling crept:creep dreamt:dream dwelt:dwell forgot:forget forgotten:forget froze:freeze
    frozen:freeze knew:know lain:lie leant:lean leapt:leap learnt:learn meant:mean mistook:mistake
    overtook:overtake panicked:panic panicking:panic proven:prove quizzes:quiz risen:rise rose:rise
    sank:sink sawn:saw shod:shoe shone:shine shrank:shrink shrunk:shrink slain:slay slept:sleep
    slid:slide slung:sling sought:seek spat:spit spilt:spill spoilt:spoil sprang:spring stank:stink
    strewn:strew stricken:strike strode:stride strove:strive stung:sting swam:swim swept:sweep
    swore:swear sworn:swear swum:swim throve:thrive trod:tread trodden:tread undid:undo woke:wake
    woken:wake wove:weave woven:weave wrung:wring
"""
_IRREGULAR = {form: base for form, _, base in (pair.partition(":") for pair in _PAIRS.split())}
_INFLECTIONS = ("s", "es", "ing", "ed", "d")
_SHORTEST = 3  # letters of a base form; many short words only look like forms


def words(text: str) -> list[str]:
    """Split a caption into lower-case words, without punctuation.

    Chinese and Japanese have no spaces between words: each ideograph is a word, and so is a run of
    hiragana or of katakana. Marks, such as vowels in Hindi and Thai, belong to the letter before.
    """
    if text.isascii():
        return _WORD.findall(text.lower())
    # Unicode can write an accented letter in two ways: use one.
    return _word_of_any_script().findall(composed(visible(text).translate(_SPELLING).lower()))


def fold(word: str) -> str:
    """Return a word without accents, ligatures and full-width letters."""
    if word.isascii():
        return word
    plain = unicodedata.normalize("NFKD", word.casefold()).translate(_ACCENTS)
    return unicodedata.normalize("NFC", plain.translate(_PLAIN_LETTERS))


def forms(word: str) -> Iterator[str]:
    """Yield possible base forms of an English word, then other forms of them."""
    bases = list(_bases(word))
    yield from bases
    for base in (word, *bases):
        if len(base) >= _SHORTEST:
            yield from (base + ending for ending in _INFLECTIONS)
            if base.endswith("e"):
                yield f"{base[:-1]}ing"


def _bases(word: str) -> Iterator[str]:
    if word in _IRREGULAR:
        yield _IRREGULAR[word]
    for ending, replacements in _ENDINGS:
        stem = word.removesuffix(ending)
        if stem == word or word.endswith("ss"):
            continue
        for replacement in replacements:
            if len(stem + replacement) >= _SHORTEST:
                yield stem + replacement
        if ending in {"ed", "ing", "est", "er"} and len(stem) > _SHORTEST and stem[-1] == stem[-2]:
            yield stem[:-1]


@cache
def _word_of_any_script() -> re.Pattern[str]:
    kinds = ((chr(code), unicodedata.category(chr(code))) for code in _MARK_CODES)
    marks = "".join(mark for mark, kind in kinds if kind in {"Mn", "Mc"})
    letters = rf"[^\W_{_HAN}{_HIRAGANA}{_KATAKANA}]"
    part = rf"{letters}+(?:[{marks}]+{letters}*)*"
    # Zero-width joiners inside words affect only how letters are drawn.
    word = rf"{part}(?:['\u200c\u200d]{part})*"
    return re.compile(rf"[{_HAN}]|[{_HIRAGANA}]+|[{_KATAKANA}]+|{word}")


class Vocabulary:
    """A fixed list of known words. All other words have the number of the unknown word."""

    def __init__(self, known: Sequence[str]) -> None:
        """Number `known` words in the order given.

        Raises:
            ValueError: there are no words, or there is a duplicate.
        """
        if not known:
            raise ValueError("a vocabulary needs at least one word")
        self.words = tuple(known)
        exact = {word: at for at, word in enumerate(known, start=len(SPECIAL))}
        if len(exact) != len(known):
            raise ValueError("a vocabulary names a word twice")
        accented = [word for word in reversed(known) if not word.isascii()]
        self._index = {fold(word): exact[word] for word in accented} | exact

    @classmethod
    def build(cls, captions: Iterable[str], min_count: int = 1) -> Vocabulary:
        """Collect the words that occur at least `min_count` times, the most frequent first.

        Pass the training captions only: words of held-out captions would be a leak.
        """
        counts = Counter(word for text in captions for word in words(text))
        frequent = [word for word, count in counts.items() if count >= min_count]
        return cls(sorted(frequent, key=lambda word: (-counts[word], word)))

    def __len__(self) -> int:
        """Return the number of words, special ones included."""
        return len(SPECIAL) + len(self.words)

    def encode(self, text: str, max_words: int) -> list[int]:
        """Return the numbers of the first `max_words` words, then `END`."""
        return [self._number(word) for word in self._words(text)[:max_words]] + [END]

    def unknown_words(self, text: str) -> list[str]:
        """List the unknown words of a caption, each once, in order."""
        return [word for word in dict.fromkeys(self._words(text)) if self._number(word) == UNKNOWN]

    def knows(self, text: str) -> bool:
        """Return whether any word of a caption is known; captions without one are all alike."""
        return any(self._number(word) != UNKNOWN for word in self._words(text))

    def _number(self, word: str) -> int:
        """Return the number of a word, or of a known word with another spelling or form of it."""
        if (number := self._index.get(word)) is not None:
            return number
        plain = fold(word)
        english = plain.isascii() and plain.isalpha()
        spellings = (plain, *forms(plain)) if english else (plain,)
        return next((self._index[known] for known in spellings if known in self._index), UNKNOWN)

    def _words(self, text: str) -> list[str]:
        """Return the words of a caption, spelled as in training data.

        If "dog's" is unknown but "dog" is known, it is read as "dog 's", as in Flickr8k.
        """
        caption_words = words(text)
        if not any("'" in word for word in caption_words):
            return caption_words
        return [part for word in caption_words for part in self._parts(word)]

    def _parts(self, word: str) -> list[str]:
        parts = word.split("'")
        if word in self._index or self._number(parts[0]) == UNKNOWN:
            return [word]
        return [parts[0], *(part for part in parts[1:] if part in self._index)]

    def to_bytes(self) -> bytes:
        """Return the words as JSON."""
        return json.dumps(self.words, ensure_ascii=False).encode()

    @classmethod
    def load(cls, path: Path) -> Vocabulary:
        """Read a file with the result of `to_bytes`; raises ValueError for any other."""
        known = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(known, list) or not all(isinstance(word, str) for word in known):
            raise ValueError(f"{path} is not a list of words")
        return cls(known)
