"""`hasse study states`: the states that tasks on top of a model of sentences read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hasse.service.cli.terminal.errors import CommandError
from hasse.service.cli.terminal.options import Device
from hasse.service.cli.terminal.progress import progress, tell

Texts = Annotated[Path, typer.Argument(metavar="FILE", help="A file with one text a line.")]
Sentences = Annotated[
    Path, typer.Option("--model", "-m", metavar="DIR", help="A model of 'hasse study grounding'.")
]
Out = Annotated[
    Path,
    typer.Option(
        "--out",
        "-o",
        metavar="FILE",
        help="A .npy file gets an array with a row for each line, any other file JSON lines.",
    ),
]


def states(*, texts: Texts, model: Sentences, out: Out, device: Device = "auto") -> None:
    """Write the state of the text encoder before it is projected to a point, for each text.

    'hasse study transfer' measures it, and 'hasse lab embed' writes the point.

    \b
    Example:
      hasse study states sentences.txt --model data/cap2img --out states.npy
    """
    from hasse.lab.checkpoints import learned_model
    from hasse.lab.encoders.order_embedding import OrderEmbedding
    from hasse.lab.pipelines import embedding
    from hasse.models.checkpoints import named_models
    from hasse.models.datasets.source import read_text
    from hasse.service.core.device import pick_device
    from hasse.studies.grounding.sentence_model import encode_states, sentence_encoder

    loaded = learned_model.load(named_models.find(model), pick_device(device), with_pictures=False)
    network = loaded.model
    encoder = sentence_encoder(network) if isinstance(network, OrderEmbedding) else None
    if not isinstance(network, OrderEmbedding) or encoder is None or not encoder.states:
        raise CommandError(
            f"the model {loaded.name} does not project the state of its text encoder: use 'hasse "
            f"lab embed'"
        )
    lines = read_text(texts).rstrip("\n").split("\n")
    blocks = embedding.text_blocks(loaded, lines, lambda some: encode_states(network, some))
    shape = len(lines), encoder.states
    with progress("embedding") as report:
        embedding.write(blocks, out, shape, lambda done: report(done, len(lines)))
    tell(f"{out}: {shape[0]:,} x {shape[1]:,}, model {loaded.name}")
