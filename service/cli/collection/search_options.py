"""Options of `hasse search`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

# Copies of service.lattice_schemas and service.schemas, which would load pydantic before --help.
PARTS_MAXIMUM, K_MAXIMUM, CANDIDATES_MAXIMUM = 16, 1000, 1_000_000


Query = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[TEXT_OR_PICTURE]",
        show_default=False,
        help="A caption, or the path of a picture. Leave it out with --all-of or --common.",
    ),
]
AllOf = Annotated[
    list[str] | None,
    typer.Option(metavar="PART", help="Find images that every PART is true of; repeat it."),
]
Common = Annotated[
    list[str] | None,
    typer.Option(metavar="PART", help="Find captions that are true of every PART; repeat it."),
]
Plus = Annotated[
    list[str] | None,
    typer.Option(metavar="PART", help="Find images like TEXT_OR_PICTURE, with PART added."),
]
Minus = Annotated[
    list[str] | None, typer.Option(metavar="PART", help="Take PART out; needs --plus.")
]
Similar = Annotated[
    Literal["alike", "more_specific", "more_general"] | None,
    typer.Option(
        help="Find images like the picture, not captions: alike, or showing more, or showing less."
    ),
]
Distinct = Annotated[
    bool,
    typer.Option(
        "--distinct/--all-captions", help="Whether captions that read the same are one hit."
    ),
]
Prefer = Annotated[
    Literal["least_violation", "specific"],
    typer.Option(
        help="Order of the captions of a picture; specific: those likely to be true come first, "
        "and of them those that say most."
    ),
]
Written = Annotated[
    bool | None,
    typer.Option(
        "--written/--by-people",
        show_default="only where there are none by people",
        help="Whether captions that a model wrote are found too.",
    ),
]
K = Annotated[
    int,
    typer.Option("--k", "-k", "--top", min=1, max=K_MAXIMUM, help="How many hits to print."),
]
Within = Annotated[
    Path | None,
    typer.Option("--in", metavar="FOLDER", help="Search only files in this folder and below."),
]
Split = Annotated[str | None, typer.Option(help="Search only images of this split.")]
TakenFrom = Annotated[
    str | None,
    typer.Option(
        metavar="DATE",
        help="Search only pictures taken on this date or later: 2024, 2024-07, 2024-07-31.",
    ),
]
TakenBefore = Annotated[
    str | None, typer.Option(metavar="DATE", help="Search only pictures taken before this date.")
]
Paths = Annotated[bool, typer.Option("--paths", help="Print the paths of the hits alone.")]
Null = Annotated[bool, typer.Option("-0", "--null", help="End each path with a NUL, for xargs -0.")]
Open = Annotated[
    bool, typer.Option("--open", help="Open the first five hits in the system's viewer.")
]
Preview = Annotated[
    bool,
    typer.Option(
        "--preview", help="Show the hits in the terminal: kitty, Ghostty, iTerm2, WezTerm, Konsole."
    ),
]
SearchMode = Annotated[
    Literal["certified", "exact", "fast"],
    typer.Option(
        help="certified: provably the exact best. exact: a full scan. fast: likely the best."
    ),
]
Candidates = Annotated[
    int | None,
    typer.Option(
        min=1, max=CANDIDATES_MAXIMUM, help="How many candidates the prefilter passes on."
    ),
]
MaxViolation = Annotated[
    float | None, typer.Option(min=0.0, help="Leave out hits with a larger violation.")
]
