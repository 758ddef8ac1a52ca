"""Does a picture's own caption come first in a collection of texts of all lengths?

    python -m hasse.studies.tables.mixed data/flickr8k data/coco --wordnet /usr/share/wordnet

Each collection has the captions of some pictures, and the nouns and noun phrases of these captions.
The first caption of each picture is its own or another's, once by the violation alone and once as
`POST /search/captions` orders it. The same is measured where only captions are searched. Where
only nouns and phrases are, it counts how often the first is true: all its words are in the
picture's captions or implied by a noun of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hasse.lab.checkpoints.learned_model import load
from hasse.lab.features.source import with_features
from hasse.lab.pipelines.dataset_encoding import encode_dataset
from hasse.models.checkpoints.checkpoint import Checkpoint
from hasse.models.checkpoints.named_models import find
from hasse.models.datasets import Dataset
from hasse.models.datasets import load as load_dataset
from hasse.models.score import penalties_between
from hasse.models.vocabulary import words
from hasse.service.core.caption_order import CaptionOrder
from hasse.service.writing.image_source import ImageSource
from hasse.studies.bootstrap import interval
from hasse.studies.tables.report import markdown, parser_of, silent
from hasse.studies.wordnet.lexicon import Lexicon
from hasse.studies.wordnet.phrases import phrases, tagged

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts of a collection: which of them are right for which picture, (P, T)."""

    texts: Sequence[str]
    right: Flags

    def beside(self, other: Texts) -> Texts:
        """Return these texts and others, which are right for no picture."""
        wrong = np.zeros_like(other.right)
        return Texts([*self.texts, *other.texts], np.concatenate([self.right, wrong], 1))


def captions_of(dataset: Dataset) -> Texts:
    """Return the captions of pictures, each right for its own."""
    texts = [[caption.text for caption in image.captions] for image in dataset.images]
    edges = np.cumsum([0, *map(len, texts)])
    right = np.zeros((len(texts), edges[-1]), np.bool_)
    for row, (start, stop) in enumerate(pairwise(edges)):
        right[row, start:stop] = True
    return Texts([text for own in texts for text in own], right)


def phrases_of(dataset: Dataset, lexicon: Lexicon) -> Texts:
    """Return the nouns and noun phrases of captions, each right where its words are said."""
    found: dict[str, None] = {}
    said: list[set[str]] = []
    for image in dataset.images:
        known = {word for caption in image.captions for word in words(caption.text)}
        for caption in image.captions:
            for phrase in phrases(tagged(caption.text, lexicon), lexicon):
                found[phrase.noun] = None
                found[" ".join([*phrase.modifiers, phrase.noun])] = None
                known |= {part for name in lexicon.implied(phrase.noun) for part in words(name)}
        said.append(known)
    texts = list(found)
    return Texts(
        texts, np.array([[known.issuperset(words(one)) for one in texts] for known in said])
    )


def first_right(
    checkpoint: Checkpoint, images: NDArray[np.float32], texts: Texts
) -> tuple[Flags, Flags]:
    """Return for each picture whether the first text is right: by the violation, and as served."""
    points = checkpoint.model.encode_captions(texts.texts)
    violations = penalties_between(checkpoint.model.config.score, images, points)
    caption_order = CaptionOrder(checkpoint)
    rows, nearest = np.arange(len(images)), violations.argmin(1)
    keys = np.stack(
        [
            caption_order.keys(texts.texts, row, image, 1)
            for row, image in zip(violations, images, strict=True)
        ]
    )
    led = np.where(np.isfinite(keys.min(1)), keys.argmin(1), nearest)
    return texts.right[rows, nearest], texts.right[rows, led]


def table(
    checkpoint: Checkpoint, dataset: Dataset, source: ImageSource, lexicon: Lexicon, pictures: int
) -> dict[str, tuple[Flags, Flags]]:
    """Measure a model on a dataset; the collections with phrases have so many pictures."""
    encoded = encode_dataset(checkpoint.model, dataset, source, silent)
    some = next(encoded.blocks(max(1, round(len(encoded.dataset) / pictures))))
    captions, short = captions_of(some.dataset), phrases_of(some.dataset, lexicon)
    every = captions_of(encoded.dataset)
    each = {
        f"{len(captions.texts) + len(short.texts):,} texts of all lengths: own caption first": (
            some.images,
            captions.beside(short),
        ),
        f"{len(every.texts):,} captions: own caption first": (encoded.images, every),
        f"{len(short.texts):,} nouns and phrases: the first is true": (some.images, short),
    }
    return {name: first_right(checkpoint, *of) for name, of in each.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table for each dataset."""
    parser = parser_of(__doc__)
    parser.add_argument("datasets", type=Path, nargs="+", help="made by 'hasse lab data import'")
    parser.add_argument("--features", type=Path, nargs="*", help="of each, by 'hasse lab features'")
    parser.add_argument("--model", type=Path, default=Path("photographs"))
    parser.add_argument("--split", default="val", help="of datasets that have it; else all")
    parser.add_argument("--pictures", type=int, default=250, help="of a collection with phrases")
    parser.add_argument("--wordnet", type=Path, default=Path("/usr/share/wordnet"))
    options = parser.parse_args(arguments)
    checkpoint, lexicon = load(find(options.model)), Lexicon.read(options.wordnet)
    features = options.features or [None] * len(options.datasets)
    rows: list[tuple[str, ...]] = []
    for folder, cached in zip(options.datasets, features, strict=True):
        found = load_dataset(folder)
        part = found.split(options.split) if options.split in found.splits() else found
        measured = table(
            checkpoint, part, with_features(ImageSource(), cached), lexicon, options.pictures
        )
        for name, flags in measured.items():
            rows.append((part.name, name, *map(_percent, flags)))
    print(markdown(("dataset", "collection", "by violation", "as served"), rows))


def _percent(flags: Flags) -> str:
    low, high = interval(flags)
    return f"{100 * flags.mean():.1f} % ({100 * low:.1f} to {100 * high:.1f})"


if __name__ == "__main__":
    main()
