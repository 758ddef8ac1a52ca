"""Arguments and options that several commands of the laboratory share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

NewLibrary = Annotated[
    Path,
    typer.Option("--library", "-l", metavar="DIR", help="Folder of the library to make."),
]
DatasetFolder = Annotated[
    Path,
    typer.Argument(metavar="DATASET", help="The folder written by 'hasse lab data import'."),
]
Model = Annotated[
    Path | None,
    typer.Option(
        "--model",
        "-m",
        metavar="DIR",
        show_default="scenes for drawn scenes, otherwise photographs",
        help="Folder of the checkpoint, or a name that 'hasse lab model list' lists.",
    ),
]
ModelOrPhotographs = Annotated[
    Path,
    typer.Option("--model", "-m", metavar="DIR", help="A checkpoint, or a built-in one's name."),
]
Features = Annotated[
    Path | None,
    typer.Option(
        "--features",
        "-f",
        metavar="DIR",
        help="Features written by 'hasse lab features': much quicker than reading the pictures.",
    ),
]
Split = Annotated[
    str | None,
    typer.Option(
        show_default="test, val to calibrate, or without splits the pictures that training "
        "withholds",
        help="Which pictures to measure on; '' for those in no split.",
    ),
]
OnCluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="HOST:PORT",
        help="Encode pictures on all machines of this Ray cluster; they need the same paths.",
    ),
]
