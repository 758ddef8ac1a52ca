"""Draw captions for a picture, all at once.

As in Kiros et al., a draw is a content u, the structure of a training caption, and the likeliest
words for both. u is the point of the picture, or the mean or the join of the training captions
nearest to it. `studies.captioner.ranking` chooses among the texts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from hasse.models.embedding_model import Points
from hasse.models.vocabulary import PADDING, SPECIAL, Vocabulary, words
from hasse.studies.captioner import DRAWS
from hasse.studies.captioner.language_model import LanguageModel
from hasse.studies.captioner.structure import ACTIONS, CONTENT, NOUNS
from hasse.studies.captioner.trigrams import Trigrams

NEAREST = 5  # training captions in u, as in the paper
_IN_PHRASE = frozenset({"determiner", "adjective", "other"})  # before its noun
SHORTEST, LONGEST = 4, 12  # words of a generated caption, as in the paper


@dataclass(frozen=True, slots=True)
class Candidates:
    """Texts drawn for a picture, with scores by the language model.

    Attributes:
        subjects: (C,), the noun that a text is about, or "" for none.
        acts: (C,), whether a text names an action.
        evidence: (C, 2), the log-probability of its content words given the point of the picture,
            and that of the least likely one.
        fluency: (C, 2), the mean log-probability of its words under the trigrams, and the least.
        in_training: (C,), whether it is a training caption.
    """

    texts: list[str]
    subjects: list[str]
    acts: NDArray[np.bool_]
    evidence: NDArray[np.float64]
    fluency: NDArray[np.float64]
    in_training: NDArray[np.bool_]


class Captioner:
    """A language model, with structures and statistics of its training captions.

    Attributes:
        tags: names of the parts of speech; number 0 is `NO_TAG`.
        templates: (S, LONGEST), the structures of captions of 4 to 12 words.
        counts: (S,), how many captions have each structure.
        references: (R, N), the joint points of the captions of training pictures.
        hashes: (M,), of the training captions, rising.
    """

    def __init__(
        self,
        model: LanguageModel,
        vocabulary: Vocabulary,
        tags: Sequence[str],
        templates: Tensor,
        counts: Tensor,
        trigrams: Trigrams,
        references: Tensor,
        hashes: NDArray[np.int64],
    ) -> None:
        """Make a captioner from its parts, which `studies.captioner.checkpoint` stores."""
        self.model, self.vocabulary, self.tags = model.eval(), vocabulary, tuple(tags)
        self.templates, self.counts = templates, counts
        self.trigrams, self.references, self.hashes = trigrams, references, hashes
        self._acts = torch.isin(templates, self._numbers(ACTIONS)).any(1)
        self._content = self._numbers(CONTENT)

    def _numbers(self, names: frozenset[str]) -> Tensor:
        return torch.tensor([at for at, tag in enumerate(self.tags, start=1) if tag in names])

    @torch.inference_mode()
    def draw(self, point: NDArray[np.float32], draws: int = DRAWS) -> Candidates:
        """Draw texts for the point of a picture (N,), the same ones every time."""
        point_here = unit(point[None])
        contents = self._contents(point_here)
        structures = self._choose(-(-draws // len(contents)))
        tags = self.templates[structures].repeat(len(contents), 1)[:draws]
        content_rows = contents.repeat_interleave(len(structures), 0)[:draws]
        decoded = self.model.decode(tags, content_rows)
        _, first = np.unique(decoded.numpy(), axis=0, return_index=True)
        rows = torch.from_numpy(np.sort(first))
        decoded, tags = decoded[rows], tags[rows]
        scores = self.model(decoded, tags, point_here.expand(len(decoded), -1)).log_softmax(-1)
        log_probability = scores.gather(2, decoded[..., None])[..., 0]
        log_probability = torch.where(torch.isin(tags, self._content), log_probability, 0)
        numbers = [row[: row.index(PADDING)] if PADDING in row else row for row in decoded.tolist()]
        texts = [
            " ".join(self.vocabulary.words[at - len(SPECIAL)] for at in row) for row in numbers
        ]
        return Candidates(
            texts,
            [self._subject(text, row) for text, row in zip(texts, tags.tolist(), strict=True)],
            torch.isin(tags, self._numbers(ACTIONS)).any(1).numpy(),
            torch.stack((log_probability.sum(1), log_probability.amin(1)), 1).double().numpy(),
            np.array([self.trigrams.fluency(row) for row in numbers]),
            self.in_training(texts),
        )

    def in_training(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        """Return which texts (C,) have the words of a training caption."""
        return np.isin(hash_of(texts), self.hashes)

    def _subject(self, text: str, tags: Sequence[int]) -> str:
        """Return the first noun that is not in a prepositional phrase, or ""."""
        in_preposition = False
        for word, number in zip(text.split(), tags, strict=False):
            tag = self.tags[number - 1]
            if tag in NOUNS and not in_preposition:
                return word
            in_preposition = tag == "preposition" or (in_preposition and tag in _IN_PHRASE)
        return ""

    def _contents(self, point: Tensor) -> Tensor:
        """Return the contents to draw with: (1, N) -> (3, N), of unit length."""
        nearest = (self.references @ point[0]).topk(min(NEAREST, len(self.references))).indices
        near = self.references[nearest]
        return torch.cat(
            (point, unit(near.mean(0).numpy()[None]), unit(near.amax(0).numpy()[None]))
        )

    def _choose(self, number: int) -> Tensor:
        """Draw distinct structures, common ones more often; half of them have a verb."""
        draw = torch.Generator().manual_seed(0)
        draws = []
        for share, has_verb in ((number // 2, True), (number - number // 2, False)):
            counts = torch.where(self._acts == has_verb, self.counts, 0).float()
            available = int((counts > 0).sum())
            if available:
                size = min(max(share, 1), available)
                draws.append(torch.multinomial(counts, size, generator=draw))
        return torch.cat(draws)


def hash_of(texts: Sequence[str]) -> NDArray[np.int64]:
    """Return a hash of 64 bits of each text's words."""
    digests = [hashlib.blake2b(" ".join(words(text)).encode(), digest_size=8) for text in texts]
    joined = b"".join(digest.digest() for digest in digests)
    return np.frombuffer(joined, dtype=np.int64)


def unit(points: Points) -> Tensor:
    """Return points with unit length: only the direction carries the content."""
    return normalize(torch.from_numpy(points), dim=-1)
