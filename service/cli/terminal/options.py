"""Arguments and options that several commands share, each with one wording."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DatasetFolder = Annotated[
    Path,
    typer.Argument(metavar="DATASET", help="A folder that 'hasse data import' wrote."),
]
IndexFolder = Annotated[
    Path, typer.Argument(metavar="INDEX", help="A folder that 'hasse index build' wrote.")
]
Model = Annotated[
    Path | None,
    typer.Option(
        "--model",
        "-m",
        metavar="DIR",
        show_default="scenes for drawn scenes, photographs for all else",
        help="The checkpoint: a folder, or the name of a built-in one.",
    ),
]
Features = Annotated[
    Path | None,
    typer.Option(
        "--features",
        "-f",
        metavar="DIR",
        help="Read these, from 'hasse features', instead of the pictures: much quicker.",
    ),
]
Device = Annotated[
    str,
    typer.Option(
        "--device",
        "-d",
        metavar="NAME",
        help="cpu, cuda, cuda:1, or auto for CUDA where there is one.",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers", min=1, show_default="one a core", help="Threads that decode pictures."
    ),
]
BatchSize = Annotated[
    int,
    typer.Option(
        "--batch-size",
        min=1,
        max=10_000,  # of 224 pixels, 6 GB, and three batches are decoded at a time
        help="Pictures at a time; fewer take less memory.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON, for scripts.")]

# For commands that read `Settings`: what is not given is left to the environment.
ServiceIndex = Annotated[
    Path | None,
    typer.Option(
        "--index",
        "-i",
        metavar="INDEX",
        show_default="data/scenes-index",
        help="The index; that of 'hasse demo' where none is named.",
    ),
]
ServiceModel = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="The checkpoint, a folder or the name of a built-in one, if it is not where the index "
        "remembers it.",
    ),
]
ServiceDevice = Annotated[
    str | None,
    typer.Option(
        "--device",
        "-d",
        metavar="NAME",
        show_default="auto",
        help="cpu, cuda, cuda:1, or auto for CUDA where there is one.",
    ),
]
