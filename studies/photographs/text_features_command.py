"""`hasse text-features`: every text through a frozen sentence encoder, once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hasse.service.cli.terminal.errors import CommandError, resumable
from hasse.service.cli.terminal.long_running import AGAIN, stoppable
from hasse.service.cli.terminal.options import Device
from hasse.service.cli.terminal.progress import progress, tell
from hasse.service.plural import count


def text_features(
    *,
    texts: Annotated[
        Path, typer.Argument(metavar="TEXTS", help="The file written by 'hasse data texts'.")
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

    'hasse train --texts' learns from them. Stop it at any time and run the same command to go on.

    \b
    [bold]Examples[/bold]
      hasse text-features data/texts.txt --encoder all-MiniLM-L6-v2 \\
          --out data/text-features
      hasse text-features data/texts.txt --out data/text-features \\
          --encoder sentence-transformers/all-MiniLM-L6-v2 --download-weights
    """
    from hasse.models.encoders import registry
    from hasse.service.runtime.device import pick_device
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
        with progress(f"downloading {encoder}") as report:
            encoder = registry.download_weights(str(encoder), report, tell)
    model = SentenceEncoder(encoder, pick_device(device))
    with (
        progress("features") as report,
        stoppable(lambda: AGAIN, TextExtractionStopped) as stop,
        resumable(lambda: f"finished features are kept in {out}; {AGAIN}"),
    ):
        found = extract_texts(wanted, model, out, progress=report, stop=stop)
    typer.echo(f"{out}: {count(len(found.texts), 'text')}")
