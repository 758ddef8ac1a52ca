"""`hasse study photographs words`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hasse.service.cli.terminal.errors import CommandError
from hasse.service.cli.terminal.progress import tell
from hasse.service.plural import count


def words(
    *,
    datasets: Annotated[
        list[Path], typer.Argument(metavar="DATASET...", help="Captioned pictures of all kinds.")
    ],
    features: Annotated[
        list[Path],
        typer.Option(
            "--features",
            "-f",
            metavar="DIR",
            help="Features of each, of 'hasse lab features', in the same order.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="Where the words go.")],
    wordnet: Annotated[Path, typer.Option(metavar="DIR", help="WordNet's database files.")] = Path(
        "/usr/share/wordnet"
    ),
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the pictures.")] = 6,
) -> None:
    """Learn everyday words from captioned pictures, for 'hasse study photographs ground --words'.

    Of a dataset with splits, the split 'train' is learned from. Words that pictures kept apart do
    not confirm are left out.

    \b
    Example:
      hasse study photographs words data/flickr8k data/coco \\
          --features data/flickr8k-features --features data/coco-features \\
          --out data/words.npz
    """
    import numpy as np

    from hasse.lab.features.feature_store import FeatureStore
    from hasse.models.datasets import load
    from hasse.studies.photographs.everyday import EverydayWords
    from hasse.studies.photographs.teaching import Lessons, teach
    from hasse.studies.wordnet.lexicon import Lexicon

    if len(datasets) != len(features):
        raise CommandError("name as many --features as datasets, in the same order")
    captions, rows = [], []
    for folder, stored in zip(datasets, features, strict=True):
        whole = load(folder)
        part = whole.split("train") if "train" in whole.splits() else whole
        captions += [[caption.text for caption in image.captions] for image in part.images]
        ids = [image.id for image in part.images]
        rows.append(FeatureStore.open(stored).select(ids, regions=True))
    lessons = Lessons.of(captions, EverydayWords(Lexicon.read(wordnet)))
    taught = teach(
        lessons,
        np.concatenate(rows),
        epochs=epochs,
        progress=lambda epoch, loss: tell(f"epoch {epoch}: loss {loss:.2f}"),
    )
    taught.write(out)
    typer.echo(f"{out}: {count(len(taught.lemmas), 'word')} by {count(len(captions), 'picture')}")
