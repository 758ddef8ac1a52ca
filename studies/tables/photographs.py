"""How good is the built-in model for photographs on pictures that it has not learned from?

    python -m hasse.studies.tables.photographs data/flickr8k data/coco --wordnet /usr/share/wordnet

Of each dataset: the recalls of captions and of images with 95 % intervals, and how many of 30
short queries bring a right picture first. The queries are made by a rule from the captions: of
adjective-noun pairs the ten that most pictures have (two pictures at least), and for the rest the
most frequent nouns, ties by the alphabet. A picture is right where its captions have or imply every
word of the query.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hasse.lab.pipelines.dataset_encoding import EncodedDataset, encode_dataset
from hasse.lab.pipelines.evaluation import measure
from hasse.models.checkpoints.checkpoint import Checkpoint, load
from hasse.models.checkpoints.named_models import find
from hasse.models.datasets import Dataset, Image
from hasse.models.datasets import load as load_dataset
from hasse.models.score import penalties_between
from hasse.service.writing.image_source import ImageSource
from hasse.studies.photographs.classes import article
from hasse.studies.tables.report import machine, markdown, parser_of, silent
from hasse.studies.wordnet.lexicon import Lexicon
from hasse.studies.wordnet.phrases import phrases, tagged
from hasse.studies.wordnet.words import content_words

QUERIES, PAIRS = 30, 10


def queries(images: Sequence[Image], lexicon: Lexicon) -> dict[str, set[int]]:
    """Return short queries by the module's rule, with the ids of the right pictures."""
    nouns: dict[str, set[int]] = defaultdict(set)
    pairs: dict[str, set[int]] = defaultdict(set)
    known: dict[int, set[str]] = {}
    for image in images:
        named = {word for one in image.captions for word in content_words(one.text)}
        for caption in image.captions:
            for phrase in phrases(tagged(caption.text, lexicon), lexicon):
                base = lexicon.base(phrase.noun.replace(" ", "_"), "noun") or phrase.noun
                noun = base.replace("_", " ")
                nouns[noun].add(image.id)
                named.add(phrase.noun)
                if phrase.modifiers:
                    pairs[f"{phrase.modifiers[-1]} {noun}"].add(image.id)
        known[image.id] = {name for word in named for name in lexicon.implied(word)}
    often = [word for word in _by_pictures(pairs) if len(pairs[word]) > 1][:PAIRS]
    found = {
        article(noun): {number for number, words in known.items() if noun in words}
        for noun in _by_pictures(nouns)[: QUERIES - len(often)]
    }
    return found | {article(pair): pairs[pair] for pair in often}


def _by_pictures(pictures: dict[str, set[int]]) -> list[str]:
    return sorted(pictures, key=lambda word: (-len(pictures[word]), word))


def answer(checkpoint: Checkpoint, encoded: EncodedDataset, lexicon: Lexicon) -> dict[str, bool]:
    """Return the short queries of a dataset, and whether a right picture comes first."""
    asked = queries(encoded.dataset.images, lexicon)
    points = checkpoint.model.encode_captions(list(asked))
    penalty = penalties_between(checkpoint.model.config.score, encoded.images, points)
    first = [encoded.dataset.images[at].id for at in penalty.argmin(0)]
    return {text: image in asked[text] for text, image in zip(asked, first, strict=True)}


def row(checkpoint: Checkpoint, dataset: Dataset, lexicon: Lexicon) -> dict[str, Any]:
    """Measure a model on a dataset."""
    encoded = encode_dataset(checkpoint.model, dataset, ImageSource(), silent)
    found = measure(checkpoint, encoded, 1, silent).to_json()
    answers = answer(checkpoint, encoded, lexicon)
    recalls = {
        side: [found[side][name] for name in ("r1", "r5", "r10")]
        for side in ("caption_retrieval", "image_retrieval")
    }
    return {
        "dataset": dataset.name,
        "images": len(encoded.dataset),
        "captions": len(encoded.captions),
        "rsum": found["rsum"],
        "interval": found["intervals"]["rsum"],
        **recalls,
        "queries": len(answers),
        "right": sum(answers.values()),
        "wrong": [text for text, right in answers.items() if not right],
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = parser_of(__doc__)
    parser.add_argument("datasets", type=Path, nargs="+", help="made by 'hasse lab data import'")
    parser.add_argument("--model", type=Path, default=Path("photographs"))
    parser.add_argument("--split", default="val", help="of datasets that have it; else all")
    parser.add_argument("--wordnet", type=Path, default=Path("/usr/share/wordnet"))
    options = parser.parse_args(arguments)

    checkpoint, lexicon = load(find(options.model)), Lexicon.read(options.wordnet)
    found = [load_dataset(folder) for folder in options.datasets]
    parts = [one.split(options.split) if options.split in one.splits() else one for one in found]
    rows = [row(checkpoint, part, lexicon) for part in parts]
    heads = (
        "pictures, captions",
        "rsum (95 %)",
        "captions R@1 / 5 / 10",
        "images R@1 / 5 / 10",
        "short queries, first picture right",
    )
    print(f"{checkpoint.name}; {machine()}\n\n{markdown(heads, map(_cells, rows))}")
    print()
    for one in rows:
        print(f"{one['dataset']}, wrong: {', '.join(one['wrong']) or 'none'}")


def _cells(row: dict[str, Any]) -> list[str]:
    low, high = row["interval"]
    sides = (row["caption_retrieval"], row["image_retrieval"])
    return [
        f"{row['dataset']}: {row['images']:,}, {row['captions']:,}",
        f"{row['rsum']:.1f} ({low:.1f} to {high:.1f})",
        *(" / ".join(f"{value:.1f}" for value in side) for side in sides),
        f"{row['right']} of {row['queries']}",
    ]


if __name__ == "__main__":
    main()
