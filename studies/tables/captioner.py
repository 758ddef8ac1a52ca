"""What tags and content give a captioner: its perplexity with and without each.

    python -m hasse.studies.tables.captioner DATASET [--model NAME] [--captions N] [--epochs N]

Trains four language models on the captions of the training split, and prints the perplexity of each
on the validation split: of a word, after the words before it.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from hasse.models.captioning.language_model import LanguageModelConfig
from hasse.models.checkpoints import checkpoint, named_models
from hasse.models.datasets import load
from hasse.studies.captioner.building import Prepared
from hasse.studies.captioner.corpus import sentences
from hasse.studies.captioner.training import CaptionerTraining
from hasse.studies.wordnet.lexicon import Lexicon


def main() -> None:
    """Train and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("dataset", type=Path)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--wordnet", type=Path, default=Path("/usr/share/wordnet"))
    parser.add_argument("--captions", type=int, help="learn from no more pictures' captions")
    parser.add_argument("--epochs", type=int, default=5)
    asked = parser.parse_args()
    dataset, lexicon = load(asked.dataset), Lexicon.read(asked.wordnet)
    encoder = checkpoint.load(
        named_models.find_or_default(asked.model, dataset), with_pictures=False
    )
    train = dataset.split("train")
    train = replace(train, images=train.images[: asked.captions])
    config = CaptionerTraining(epochs=asked.epochs)
    prepared = Prepared.of(
        sentences(train, lexicon),
        sentences(dataset.split("val"), lexicon),
        encoder,
        config.min_word_count,
    )
    print(f"{dataset.name}: {len(prepared.train):,} captions, {asked.epochs} epochs")
    print("| tags | content | perplexity |\n|---|---|---|")
    for tags in (False, True):
        for content in (False, True):
            shape = LanguageModelConfig(structure=tags, content=content)
            run = prepared.training(replace(config, model=shape), encoder)
            run.run()
            named = ("yes" if one else "no" for one in (tags, content))
            print(f"| {' | '.join(named)} | {-run.notes['best']:.3f} |", flush=True)


if __name__ == "__main__":
    main()
