"""Arguments and options that several commands share, with one help text each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hasse.service.cli.terminal.configuration import configure, picture_limits
from hasse.service.cli.terminal.errors import CommandError
from hasse.service.cli.terminal.progress import tell

if TYPE_CHECKING:  # torch, which takes seconds to import, is needed only to encode
    from hasse.service.settings import Settings
    from hasse.service.writing.image_source import ImageSource

Library = Annotated[
    Path | None,
    typer.Option(
        "--library",
        "-l",
        metavar="DIR",
        show_default="HASSE_LIBRARY, or your own",
        help="Folder of the library.",
    ),
]
LibraryModel = Annotated[
    Path | None,
    typer.Option(
        "--model",
        "-m",
        metavar="NAME",
        show_default="the library's own, or photographs",
        help="The model, or the folder of one: 'hasse lab model list'.",
    ),
]
Exclude = Annotated[
    list[str] | None,
    typer.Option(
        metavar="GLOB",
        help="Leave out files or folders below the named ones, as .gitignore would; repeat it. "
        "'!GLOB' brings back what is left out by default, such as thumbnails of a NAS.",
    ),
]
_DEVICE = typer.Option(
    "--device",
    "-d",
    metavar="NAME",
    show_default="auto",
    help="cpu, cuda, cuda:1, or auto, which picks CUDA if present.",
)
Device = Annotated[str, _DEVICE]
# For commands that read `Settings`: without the option, the environment decides.
ServiceDevice = Annotated[str | None, _DEVICE]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers", min=1, show_default="one per core", help="Threads that decode pictures."
    ),
]
BatchSize = Annotated[
    int,
    typer.Option(
        "--batch-size",
        min=1,
        max=10_000,  # 6 GB at 224 pixels, and three batches are decoded at a time
        help="Pictures per batch; fewer take less memory.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON, for scripts.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print what would be done, and change nothing.")
]


@dataclass(frozen=True, slots=True)
class LibraryOptions:
    """Options of a command that opens a library: its folder, the model and the device."""

    library: Library = None
    model: LibraryModel = None
    device: ServiceDevice = None

    def settings(self, **options: Any) -> Settings:
        """Return the settings of the command; `options` are its other options."""
        return configure(library=self.library, model=self.model, device=self.device, **options)


@dataclass(frozen=True, slots=True)
class FileOptions:
    """Options of a command that lists files."""

    paths: Annotated[bool, typer.Option("--paths", help="Print the paths alone.")] = False
    null: Annotated[
        bool, typer.Option("-0", "--null", help="End each of --paths with a NUL, for xargs -0.")
    ] = False
    as_json: Json = False

    def check(self) -> None:
        """Raise CommandError for options that exclude each other or need another."""
        if self.as_json and self.paths:
            raise CommandError("give one of --json and --paths")
        if self.null and not self.paths:
            raise CommandError("-0 needs --paths")


@dataclass(frozen=True, slots=True)
class Encoding:
    """Options of a command that reads and encodes pictures."""

    batch_size: BatchSize = 32
    device: Device = "auto"
    workers: Workers = None

    def source(self, skipped: Callable[[str], None] = tell) -> ImageSource:
        """Return the source of the points of pictures."""
        from hasse.service.writing.image_source import ImageSource

        return ImageSource(self.batch_size, self.workers, skipped, picture_limits())
