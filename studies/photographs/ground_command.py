"""`hasse study photographs ground`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from hasse.lab.commands.options import DatasetFolder
from hasse.service.cli.terminal.errors import CommandError
from hasse.service.plural import count

if TYPE_CHECKING:
    from hasse.models.datasets import Dataset
    from hasse.studies.photographs.chains import Chain


def ground(
    *,
    dataset: DatasetFolder,
    model: Annotated[
        Path, typer.Option("--model", "-m", metavar="DIR", help="The trained and calibrated model.")
    ],
    features: Annotated[
        Path,
        typer.Option("--features", "-f", metavar="DIR", help="Features of 'hasse lab features'."),
    ],
    chains: Annotated[
        Path,
        typer.Option(
            metavar="FILE", help="Chains of its pictures, of 'hasse study photographs abstract'."
        ),
    ],
    named: Annotated[
        list[Path],
        typer.Option(
            metavar="DIR",
            help="A dataset of pictures named by what they show, as n02084071_dog.jpg, to "
            "calibrate on; repeat it for several.",
        ),
    ],
    named_features: Annotated[
        list[Path],
        typer.Option(metavar="DIR", help="Their features, in the same order."),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="DIR", help="Where the model is written.")
    ],
    beside: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIR",
            help="A dataset of captioned pictures of another kind, to calibrate on too; repeat it "
            "for several.",
        ),
    ] = None,
    beside_features: Annotated[
        list[Path] | None,
        typer.Option(metavar="DIR", help="Their features, in the same order."),
    ] = None,
    beside_chains: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Chains of their pictures, in the same order."),
    ] = None,
    captions: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Captions of other pictures, one a line."),
    ] = None,
    words: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Taught words, of 'hasse study photographs words'."),
    ] = None,
    wordnet: Annotated[Path, typer.Option(metavar="DIR", help="WordNet's database files.")] = Path(
        "/usr/share/wordnet"
    ),
) -> None:
    """Ground a model of photographs in the classes that its network knows.

    Points get coordinates that stand for things: the evidence of the network's own classifier on
    pictures, and what WordNet says that words demand on captions. Nothing is trained here. The
    built-in model was made by it.

    \b
    Example:
      hasse study photographs ground data/flickr8k --model data/learned \\
          --features data/flickr8k-features --chains data/chains.jsonl \\
          --named data/names --named-features data/names-features \\
          --out data/grounded
    """
    from hasse.lab.features.feature_store import FeatureStore
    from hasse.models.calibration import Calibrations
    from hasse.models.checkpoints import checkpoint, named_models
    from hasse.models.datasets import load
    from hasse.studies.photographs import grounding
    from hasse.studies.photographs.chain_calibration import ChainedImages
    from hasse.studies.photographs.classes import imagenet_synsets
    from hasse.studies.photographs.teaching import Taught
    from hasse.studies.photographs.text_pairs import TEXT_PAIRS, Nouns, calibrate_texts
    from hasse.studies.photographs.texts import read_texts
    from hasse.studies.photographs.things import Things, Usage
    from hasse.studies.wordnet.lexicon import Lexicon

    if len(named) != len(named_features):
        raise CommandError("--named and --named-features go together: name as many of each")
    others = beside or [], beside_features or [], beside_chains or []
    if len({len(each) for each in others}) > 1:
        raise CommandError(
            "--beside, --beside-features and --beside-chains go together: name as many of each"
        )
    whole = load(dataset)
    part, derived, rows = _chained(whole, features, chains)
    taught = whole.split("train")
    learned = [one.text for one in taught.captions]
    read = [text for file in captions or () for text in read_texts(file)]
    lexicon = Lexicon.read(wordnet)
    things = Things.choose(lexicon, Usage.of([*learned, *read]), imagenet_synsets())
    base = named_models.find(model)
    captioned = replace(whole, images=taught.images + part.images)
    seen = FeatureStore.open(features).select([one.id for one in captioned.images], regions=True)
    known_words = None if words is None else Taught.read(words)
    grounded = grounding.ground(base, out, things, learned, captioned, seen, out.name, known_words)
    encode = grounded.model.encode_features
    pictures = []
    for folder, stored in zip(named, named_features, strict=True):
        shown, own = load(folder), FeatureStore.open(stored)
        points = encode(own.select([image.id for image in shown.images], regions=True))
        synsets = [image.path.name[1:9] for image in shown.images]
        pictures.append(grounding.NamedPictures.of(things, points, synsets))
    chained = [ChainedImages(part, encode(rows), derived)]
    for folder, stored, file in zip(*others, strict=True):
        one, found, own_rows = _chained(load(folder), stored, file)
        chained.append(ChainedImages(one, encode(own_rows), found))
    image = grounding.calibrate_grounded(grounded, chained, pictures)
    own_model = grounding.require_grounded(grounded)
    nouns = Nouns.of(own_model, things)
    text = calibrate_texts(own_model, nouns.pairs(nouns.halves()[0], TEXT_PAIRS, seed=1))
    checkpoint.write_calibration(out, Calibrations(image, text))
    typer.echo(
        f"{out}: {count(len(things.sets), 'coordinate')} of things; calibrated on "
        f"{count(image.pairs, 'pair')}, {image.true:,} of them true"
    )


def _chained(
    dataset: Dataset, features: Path, chains: Path
) -> tuple[Dataset, list[Chain], NDArray[np.floating]]:
    """Return the pictures of a dataset that have chains, those chains, and their features."""
    from hasse.lab.features.feature_store import FeatureStore
    from hasse.studies.photographs.chains import read_chains

    derived, store = read_chains(chains), FeatureStore.open(features)
    with_chains = {chain.image_id for chain in derived}
    part = replace(dataset, images=tuple(one for one in dataset.images if one.id in with_chains))
    return part, derived, store.select([image.id for image in part.images], regions=True)
