"""Words and their numbers."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

PADDING, UNKNOWN, END = 0, 1, 2
SPECIAL = ("<pad>", "<unk>", "<end>")

# Letters, digits and inner apostrophes; everything else separates. "man's" stays one word.
_WORD = re.compile(r"[a-z0-9]+(?:'[a-z0-9]+)*")

_HAN = "\u3005\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_HIRAGANA, _KATAKANA = "\u3041-\u309f", "\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
_ENCODED = range(0x300, 0x1F000)  # where Unicode has combining marks


def words(text: str) -> list[str]:
    """Split a caption into lower-case words, without punctuation.

    Chinese and Japanese put no spaces between words: each ideograph is a word there, and so is a
    run of one kana. Marks, such as vowels in Hindi and Thai, belong to the letter before them.
    """
    if text.isascii():
        return _WORD.findall(text.lower())
    # Unicode has two ways to write a letter with an accent: use one.
    whole = unicodedata.normalize("NFC", text.lower())
    return [word.replace("’", "'") for word in _word_of_any_script().findall(whole)]


@cache
def _word_of_any_script() -> re.Pattern[str]:
    kinds = ((chr(code), unicodedata.category(chr(code))) for code in _ENCODED)
    marks = "".join(mark for mark, kind in kinds if kind in {"Mn", "Mc"})
    letters = rf"[^\W_{_HAN}{_HIRAGANA}{_KATAKANA}]"
    part = rf"{letters}+(?:[{marks}]+{letters}*)*"
    # Two zero-width joiners inside words change only how letters are drawn.
    spelled = rf"{part}(?:['’\u200c\u200d]{part})*"
    return re.compile(rf"[{_HAN}]|[{_HIRAGANA}]+|[{_KATAKANA}]+|{spelled}")


class Vocabulary:
    """A fixed list of known words; all others are one unknown word."""

    def __init__(self, known: Sequence[str]) -> None:
        """Number `known` words in the order given.

        Raises:
            ValueError: there are no words, or one is named twice.
        """
        if not known:
            raise ValueError("a vocabulary needs at least one word")
        self.words = tuple(known)
        self._index = {word: at for at, word in enumerate(known, start=len(SPECIAL))}
        if len(self._index) != len(known):
            raise ValueError("a vocabulary names a word twice")

    @classmethod
    def build(cls, captions: Iterable[str], min_count: int = 1) -> Vocabulary:
        """Collect the words that occur at least `min_count` times, the most frequent first.

        Pass the training captions only: words of held-out captions would be a leak.
        """
        counts = Counter(word for text in captions for word in words(text))
        kept = [word for word, count in counts.items() if count >= min_count]
        return cls(sorted(kept, key=lambda word: (-counts[word], word)))

    def __len__(self) -> int:
        """Return how many numbers are in use, special ones included."""
        return len(SPECIAL) + len(self.words)

    def encode(self, text: str, max_words: int) -> list[int]:
        """Return the numbers of the first `max_words` words, then `END`."""
        return [self._index.get(word, UNKNOWN) for word in self._words(text)[:max_words]] + [END]

    def unknown(self, text: str) -> list[str]:
        """List the words of a caption that are not known, each once, in order."""
        return list(dict.fromkeys(word for word in self._words(text) if word not in self._index))

    def knows(self, text: str) -> bool:
        """Tell whether any word of a caption is known; captions without one are all alike."""
        return any(word in self._index for word in self._words(text))

    def _words(self, text: str) -> list[str]:
        """Return the words of a caption as training data writes them.

        "dog's" may be known as such. Where it is not and "dog" is, it is read as "dog 's", the way
        Flickr8k writes it.
        """
        found = words(text)
        if not any("'" in word for word in found):
            return found
        return [part for word in found for part in self._parts(word)]

    def _parts(self, word: str) -> list[str]:
        parts = word.split("'")
        if word in self._index or parts[0] not in self._index:
            return [word]
        return [part for part in parts if part in self._index]

    def to_bytes(self) -> bytes:
        """Return the words as JSON."""
        return json.dumps(self.words, ensure_ascii=False).encode()

    @classmethod
    def load(cls, path: Path) -> Vocabulary:
        """Read a file that `to_bytes` made; raises ValueError for any other."""
        known = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(known, list) or not all(isinstance(word, str) for word in known):
            raise ValueError(f"{path} is not a list of words")
        return cls(known)
