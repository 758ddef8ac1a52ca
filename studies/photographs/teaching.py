"""Learns which everyday words a picture shows, from captions and frozen features of its windows.

A linear layer on the standardised features of each window, and P = 1 - product over windows of
(1 - p), as `hasse.models.grounding.taught` computes it. What a caption does not say counts as
absent, but a word holds wherever one of its kinds does.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import softplus

from hasse.models.datasets import DatasetError
from hasse.studies.photographs.everyday import EverydayWords, Lemma

MOST = 512  # words: half of the coordinates of the model's points
LEAST_PICTURES = 50  # whose captions say a word
HELD = 20  # one picture in so many is kept apart, to tell which words were learned
LEAST_AUC, LEAST_HELD = 0.75, 3  # of a word, on pictures kept apart that show it
EPOCHS, BATCH, RATE, DECAY, WARM_UP = 6, 512, 2e-3, 0.3, 30
_SAMPLE = 4000  # pictures whose windows give the mean and the spread of features

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Lessons:
    """Pictures and the words that hold of them.

    Attributes:
        lemmas: T words, the most frequent first.
        forms: the number of the word of each form in captions.
        kinds: (P, 2), a general word and one of its kinds, by number.
        holds: (I, T), which words hold of which pictures.
    """

    lemmas: Sequence[Lemma]
    forms: dict[str, int]
    kinds: NDArray[np.int32]
    holds: NDArray[np.bool_]

    @classmethod
    def of(cls, captions: Sequence[Sequence[str]], words: EverydayWords) -> Self:
        """Collect the words of pictures' captions.

        Raises:
            DatasetError: no word is said of enough pictures.
        """
        forms: dict[str, Lemma] = {}
        said: list[set[Lemma]] = []
        for texts in captions:
            found = {form: lemma for text in texts for form, lemma in words.forms(text).items()}
            forms |= found
            said.append(set(found.values()))
        general = words.general(set(forms.values()))
        shown = [one.union(*(general.get(lemma, set()) for lemma in one)) for one in said]
        counts = Counter(lemma for one in shown for lemma in one)
        lemmas = sorted(
            (lemma for lemma, count in counts.items() if count >= LEAST_PICTURES),
            key=lambda lemma: (-counts[lemma], lemma),
        )
        if not lemmas:
            raise DatasetError(
                f"no word is said of {LEAST_PICTURES} pictures: give more pictures with captions"
            )
        number = {lemma: at for at, lemma in enumerate(lemmas)}
        holds = np.zeros((len(shown), len(lemmas)), np.bool_)
        for row, one in enumerate(shown):
            holds[row, [number[lemma] for lemma in one if lemma in number]] = True
        pairs = [
            (number[above], number[lemma])
            for lemma in lemmas
            for above in sorted(general.get(lemma, set()))
            if above in number
        ]
        kinds = np.array(pairs, np.int32).reshape(-1, 2)
        known = {form: number[lemma] for form, lemma in forms.items() if lemma in number}
        return cls(lemmas, known, kinds, holds)


@dataclass(frozen=True, slots=True, eq=False)
class Taught:
    """Words that were learned, ready for a grounded model, and their file.

    Attributes:
        weight, bias: (F, T) and (T,), of features that are not standardised.
        kinds: (P, 2), a general word and one of its kinds.
        lemmas: (T,), the words with their parts of speech, as "dog/noun".
        forms: the number of the word of each form.
        auc: (T,), on pictures kept apart.
    """

    weight: Floats
    bias: Floats
    kinds: NDArray[np.int32]
    lemmas: Sequence[str]
    forms: dict[str, int]
    auc: Floats

    def best(self, shown: NDArray[np.int64]) -> Taught:
        """Return the `MOST` most frequent learned words; `shown` (T,) pictures were kept apart."""
        enough = np.flatnonzero((self.auc >= LEAST_AUC) & (shown >= LEAST_HELD))[:MOST]
        place = {int(old): new for new, old in enumerate(enough)}
        kinds = [
            (place[general], place[kind])
            for general, kind in self.kinds.tolist()
            if general in place and kind in place
        ]
        return Taught(
            self.weight[:, enough],
            self.bias[enough],
            np.array(kinds, np.int32).reshape(-1, 2),
            [self.lemmas[at] for at in enough],
            {form: place[at] for form, at in self.forms.items() if at in place},
            self.auc[enough],
        )

    def write(self, path: Path) -> None:
        """Write a file that `read` reads."""
        path.parent.mkdir(parents=True, exist_ok=True)
        words = json.dumps({"lemmas": list(self.lemmas), "forms": self.forms}).encode()
        np.savez(
            path,
            weight=self.weight,
            bias=self.bias,
            kinds=self.kinds,
            auc=self.auc,
            words=np.frombuffer(words, np.uint8),
        )

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read taught words.

        Raises:
            DatasetError: the file is missing or of another kind.
        """
        try:
            with np.load(path) as stored:
                words = json.loads(stored["words"].tobytes())
                return cls(
                    stored["weight"],
                    stored["bias"],
                    stored["kinds"],
                    words["lemmas"],
                    words["forms"],
                    stored["auc"],
                )
        except (OSError, ValueError, KeyError) as error:
            raise DatasetError(
                f"{path} does not hold taught words ({error}): 'hasse study photographs words' "
                f"writes them"
            ) from error


def teach(
    lessons: Lessons,
    features: NDArray[np.floating],
    *,
    epochs: int = EPOCHS,
    seed: int = 0,
    progress: Callable[[int, float], None] = lambda epoch, loss: None,
) -> Taught:
    """Learn words from the features of pictures (I, REGIONS, F).

    `progress` gets the number of each epoch and its mean loss. Words that are not learned, or are
    beyond the most frequent, are left out.
    """
    rows = np.arange(len(features))
    learned_from, held = rows[rows % HELD != 0], rows[::HELD]
    holds = lessons.holds
    draw = np.random.default_rng(seed)
    sample = np.sort(draw.choice(rows, min(_SAMPLE, len(rows)), replace=False))
    flat = np.asarray(features[sample], np.float32).reshape(-1, features.shape[-1])
    mean, spread = flat.mean(0), flat.std(0) + 1e-3
    layer = _Layer(mean, spread, holds[learned_from].mean(0), features.shape[1])
    batches = max(1, len(learned_from) // BATCH)
    optimizer = torch.optim.AdamW(
        [
            {"params": [layer.weight], "weight_decay": DECAY},
            {"params": [layer.bias], "weight_decay": 0.0},
        ],
        lr=RATE,
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda step: (
            min(1, (step + 1) / WARM_UP) * 0.5 * (1 + np.cos(np.pi * step / (epochs * batches)))
        ),
    )
    for epoch in range(epochs):
        total = 0.0
        for batch in np.array_split(draw.permutation(learned_from), batches):
            chosen = np.sort(batch)
            loss = layer.loss(features[chosen], torch.from_numpy(holds[chosen]))
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
            total += loss.item()
        progress(epoch + 1, total / batches)
    with torch.inference_mode():
        found = np.concatenate(
            [
                layer.hidden(features[held[at : at + BATCH]]).numpy()
                for at in range(0, len(held), BATCH)
            ]
        )
    weight = layer.weight.detach().numpy()
    every = Taught(
        weight / spread[:, None],
        layer.bias.detach().numpy() - (mean / spread) @ weight,
        lessons.kinds,
        ["/".join(lemma) for lemma in lessons.lemmas],
        lessons.forms,
        np.array([_auc(found[:, at], holds[held, at]) for at in range(len(lessons.lemmas))]),
    )
    return every.best(holds[held].sum(0))


class _Layer:
    """The linear layer of all words."""

    def __init__(
        self, mean: Floats, spread: Floats, often: NDArray[np.float64], windows: int
    ) -> None:
        """Start with the share of pictures that each word holds of, `often` (T,)."""
        share = often.clip(1e-5, 0.9)
        start = np.log(np.expm1(-np.log1p(-share) / windows))
        self._mean, self._spread = torch.from_numpy(mean), torch.from_numpy(spread)
        self.weight = torch.zeros(len(mean), len(often), requires_grad=True)
        self.bias = torch.tensor(start, dtype=torch.float32, requires_grad=True)

    def hidden(self, features: NDArray[np.floating]) -> torch.Tensor:
        """Return -log(1 - P) of each word: (B, R, F) -> (B, T)."""
        windows = torch.from_numpy(np.asarray(features, np.float32))
        logits = ((windows - self._mean) / self._spread) @ self.weight + self.bias
        return softplus(logits).sum(1)

    def loss(self, features: NDArray[np.floating], holds: torch.Tensor) -> torch.Tensor:
        """Return the log loss of a picture, summed over words."""
        hidden = self.hidden(features)
        shown = -torch.log(-torch.expm1(-hidden) + 1e-7)
        return torch.where(holds, shown, hidden).sum(1).mean()


def _auc(evidence: Floats, shown: NDArray[np.bool_]) -> float:
    """Return how often a picture that shows a word has more evidence than one that does not."""
    others = np.sort(evidence[~shown])
    if not shown.any() or not len(others):
        return 0.0
    below = np.searchsorted(others, evidence[shown], "left") + np.searchsorted(
        others, evidence[shown], "right"
    )
    return float(below.mean()) / 2 / len(others)
