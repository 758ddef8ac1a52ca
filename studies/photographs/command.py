"""`hasse study photographs`: chains, classes and texts that teach a model of photographs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hasse.lab.commands.long_running import CONTINUE_MESSAGE, stoppable
from hasse.lab.commands.options import DatasetFolder
from hasse.service.cli.terminal.errors import CommandError, resumable
from hasse.service.cli.terminal.help_text import Commands
from hasse.service.cli.terminal.options import Device
from hasse.service.cli.terminal.progress import progress, tell
from hasse.service.plural import count
from hasse.studies.photographs.ground_command import ground
from hasse.studies.photographs.learning_command import calibrate, evaluate, train
from hasse.studies.photographs.phrases_command import phrases
from hasse.studies.photographs.words_command import words

photographs = Commands(
    help="Prepare texts and classes for a model of photographs, such as the built-in one.",
)

WordNet = Annotated[
    Path,
    typer.Option(metavar="DIR", help="WordNet's database files (Debian: apt install wordnet)."),
]
WORDNET = Path("/usr/share/wordnet")


@photographs.add
def abstract(
    *,
    dataset: DatasetFolder,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="Where chains go.")],
    wordnet: WordNet = WORDNET,
    split: Annotated[
        str, typer.Option(help="Whose captions; '' for those of pictures in no split.")
    ] = "val",
) -> None:
    """Derive chains from captions: texts that follow from them, from general to specific.

    "A blue bird sits on a branch" gives "animal", "bird", "a blue bird" and itself. They are kept
    in a file of their own and never appear in answers. 'hasse study photographs evaluate' measures
    with them, and 'hasse study photographs calibrate' calibrates probabilities.

    \b
    Example:
      hasse study photographs abstract data/flickr8k --split val \\
          --out data/chains.jsonl
    """
    from hasse.models.datasets import load
    from hasse.studies.photographs.chain_making import derive
    from hasse.studies.photographs.chains import write_chains
    from hasse.studies.wordnet.lexicon import Lexicon

    images = load(dataset).split(split).images
    with progress("deriving") as report:
        chains = derive(images, Lexicon.read(wordnet), report)
    write_chains(out, chains)
    captions = sum(len(image.captions) for image in images)
    typer.echo(f"{out}: {count(len(chains), 'chain')} of {count(captions, 'caption')}")


@photographs.add
def classes(
    *,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="Where they go.")],
    wordnet: WordNet = WORDNET,
) -> None:
    """Name ImageNet's 1,000 classes and all that they are kinds of, by WordNet.

    A network that was trained on them has seen far more than the captions name: 'hasse study
    photographs train --classes' learns their names. The extra 'timm' lists the classes.

    \b
    Example:
      hasse study photographs classes --out data/classes.jsonl
    """
    from hasse.studies.photographs.classes import (
        imagenet_classes,
        imagenet_synsets,
        write_classes,
    )
    from hasse.studies.wordnet.lexicon import Lexicon

    named = imagenet_classes(Lexicon.read(wordnet), imagenet_synsets())
    write_classes(out, named)
    names = {text for one in named for text in one.texts}
    typer.echo(f"{out}: {len(named):,} classes with {count(len(names), 'name')}")


@photographs.add
def texts(
    *,
    dataset: DatasetFolder,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="Where texts go.")],
    captions: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Captions of other pictures, one a line, as Flickr30k's token file has them; "
            "repeat it for several.",
        ),
    ] = None,
    derived: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Chains of 'hasse study photographs abstract', to be among the texts.",
        ),
    ] = None,
    classes: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Names of 'hasse study photographs classes', to be among them."
        ),
    ] = None,
    wordnet: WordNet = WORDNET,
    split: Annotated[str, typer.Option(help="Whose captions; '' for those of no split.")] = "train",
    words: Annotated[int, typer.Option(min=1, help="Most words that the texts are made of.")] = (
        28_000
    ),
) -> None:
    """Collect texts that a model should understand though it has no pictures of them.

    They are the dataset's captions, other people's, the noun phrases of both, and names and
    glosses of things in WordNet. 'hasse study photographs features' makes features of them, and
    'hasse study photographs train' learns from those.

    \b
    Example:
      hasse study photographs texts data/flickr8k \\
          --captions results_20130124.token --out data/texts.txt
    """
    from hasse.models.datasets import load
    from hasse.studies.photographs.chains import read_chains
    from hasse.studies.photographs.classes import read_classes
    from hasse.studies.photographs.texts import collect, read_texts, write_texts
    from hasse.studies.wordnet.lexicon import Lexicon

    own = [caption.text for caption in load(dataset).split(split).captions]
    own += [text for file in captions or () for text in read_texts(file)]
    others = [
        text for file in derived or () for one in read_chains(file) for text in one.texts[:-1]
    ]
    if classes is not None:
        others += [text for one in read_classes(classes) for text in one.texts]
    with progress("collecting") as report:
        found = collect(own, Lexicon.read(wordnet), others, words, report)
    write_texts(out, found)
    typer.echo(f"{out}: {count(len(found), 'text')}")


@photographs.add
def features(
    *,
    texts: Annotated[
        Path,
        typer.Argument(
            metavar="TEXTS", help="The file written by 'hasse study photographs texts'."
        ),
    ],
    encoder: Annotated[
        Path,
        typer.Option(
            metavar="DIR",
            help="Folder of a sentence encoder such as all-MiniLM-L6-v2: config.json, "
            "model.safetensors and its tokenizer. With --download-weights its name.",
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="DIR", help="Where the features are kept.")
    ],
    download_weights: Annotated[
        bool,
        typer.Option(
            "--download-weights", help="Download the encoder, sentence-transformers/NAME, once."
        ),
    ] = False,
    device: Device = "auto",
) -> None:
    """Compute features of texts with a sentence encoder that stays as it is.

    'hasse study photographs train' learns from them. Stop it at any time and run the same command
    to go on.

    \b
    Examples:
      hasse study photographs features data/texts.txt --encoder all-MiniLM-L6-v2 \\
          --out data/text-features
      hasse study photographs features data/texts.txt --out data/text-features \\
          --encoder sentence-transformers/all-MiniLM-L6-v2 --download-weights
    """
    from hasse.lab.encoders import registry
    from hasse.service.core.device import pick_device
    from hasse.studies.photographs.sentence_encoder import SentenceEncoder
    from hasse.studies.photographs.text_features import TextExtractionStopped, extract_texts
    from hasse.studies.photographs.texts import read_texts

    wanted = read_texts(texts)
    if download_weights:
        if encoder.parts[0] != "sentence-transformers":
            raise CommandError(
                "--download-weights takes --encoder sentence-transformers/NAME, such as "
                "sentence-transformers/all-MiniLM-L6-v2"
            )
        encoder = registry.download_weights(str(encoder), tell)
    model = SentenceEncoder(encoder, pick_device(device))
    with (
        progress("features") as report,
        stoppable(lambda: CONTINUE_MESSAGE, TextExtractionStopped) as stop,
        resumable(lambda: f"finished features are kept in {out}; {CONTINUE_MESSAGE}"),
    ):
        found = extract_texts(wanted, model, out, progress=report, stop=stop)
    typer.echo(f"{out}: {count(len(found.texts), 'text')}")


photographs.add(train)
photographs.add(calibrate)
photographs.add(evaluate)
photographs.add(words)
photographs.add(ground)
photographs.add(phrases)
