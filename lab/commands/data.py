"""`hasse lab data`: imports pictures and captions from the formats people have."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hasse.service.cli.terminal.configuration import picture_limits
from hasse.service.cli.terminal.errors import resumable
from hasse.service.cli.terminal.help_text import Commands
from hasse.service.cli.terminal.options import Exclude
from hasse.service.cli.terminal.progress import progress
from hasse.service.cli.terminal.skipped_rows import skipped_summary, warn_each
from hasse.service.plural import count

if TYPE_CHECKING:
    from hasse.models.datasets import Dataset
    from hasse.models.datasets.skipped_rows import SkippedRows

data = Commands(help="Bring pictures and captions into one format.")
imports = Commands(
    help="""Import a dataset: one dataset.json, whatever it came as.

    Rows that cannot be used (no such picture, an empty caption) are named, counted and skipped;
    ids of images and captions stay what they were. Pictures stay where they are.

    \b
    Examples:
      hasse lab data import scenes --out data/scenes
      hasse lab data import coco captions_val2017.json --images val2017 \\
          --out data/coco
      hasse lab data import karpathy dataset_coco.json --images coco \\
          --out data/coco
      hasse lab data import folder ~/Pictures --out data/mine
    """,
)
data.add_typer(imports, name="import")

Images = Annotated[
    Path, typer.Option("--images", "-i", help="The folder that holds the pictures.", metavar="DIR")
]
Out = Annotated[
    Path, typer.Option("--out", "-o", help="Where to write the dataset.", metavar="DIR")
]
Json = Annotated[bool, typer.Option("--json", help="Print what was imported as JSON, for scripts.")]


@imports.add
def scenes(
    *,
    out: Out = Path("data/scenes"),
    train: Annotated[int, typer.Option(min=0, help="How many pictures to train on.")] = 16_000,
    val: Annotated[int, typer.Option(min=0, help="How many to choose the best epoch by.")] = 1000,
    test: Annotated[int, typer.Option(min=0, help="How many to measure on.")] = 1000,
    seed: Annotated[int, typer.Option(help="Another seed draws other scenes.")] = 0,
    workers: Annotated[
        int | None, typer.Option(min=1, show_default="one a core", help="Processes that draw.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Draw the built-in collection: scenes whose every caption is known true or false.

    The same seed draws the same pictures on every machine.
    """
    from hasse.service.pipelines.scenes import generate

    message = "the same command draws the same scenes again"
    with progress("drawing scenes") as report, resumable(lambda: message):
        dataset = generate(
            out, train=train, val=val, test=test, seed=seed, workers=workers, progress=report
        )
    _print_summary(dataset, None, out, as_json)


@imports.add
def coco(
    *,
    annotations: Annotated[
        list[Path],
        typer.Argument(help="Caption annotation files, such as captions_val2017.json."),
    ],
    images: Images,
    out: Out = Path("data/coco"),
    split: Annotated[
        str | None,
        typer.Option(
            show_default="what the file's name says",
            help="Put all of it in this split: train, val or test.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Import MS-COCO captions. COCO's image and caption ids survive to the answer.

    \b
    Example:
      hasse lab data import coco annotations/captions_train2017.json \\
          annotations/captions_val2017.json --images coco --out data/coco
    """
    from hasse.lab.datasets import coco as reader

    _import(partial(reader.read, annotations, images, split), out, as_json)


@imports.add
def karpathy(
    *,
    document: Annotated[Path, typer.Argument(metavar="JSON", help="Such as dataset_coco.json.")],
    images: Images,
    out: Out = Path("data/karpathy"),
    as_json: Json = False,
) -> None:
    """Import Karpathy's split files (dataset_coco.json, dataset_flickr8k.json, ..flickr30k).

    These are the splits that papers report on: restval counts as train, and COCO keeps its ids.
    """
    from hasse.lab.datasets import karpathy as reader

    _import(partial(reader.read, document, images), out, as_json)


@imports.add
def flickr8k(
    *,
    tokens: Annotated[
        Path, typer.Argument(metavar="TOKENS", help="The captions: Flickr8k.token.txt.")
    ],
    images: Images,
    train: Annotated[
        Path | None, typer.Option(help="Names of training pictures: Flickr_8k.trainImages.txt.")
    ] = None,
    val: Annotated[Path | None, typer.Option(help="Flickr_8k.devImages.txt.")] = None,
    test: Annotated[Path | None, typer.Option(help="Flickr_8k.testImages.txt.")] = None,
    out: Out = Path("data/flickr8k"),
    as_json: Json = False,
) -> None:
    """Import Flickr8k in its original files.

    \b
    Example:
      hasse lab data import flickr8k Flickr8k.token.txt \\
          --images Flicker8k_Dataset \\
          --train Flickr_8k.trainImages.txt --val Flickr_8k.devImages.txt \\
          --test Flickr_8k.testImages.txt --out data/flickr8k
    """
    from hasse.lab.datasets import flickr8k as reader

    files = {"train": train, "val": val, "test": test}
    splits = {name: path for name, path in files.items() if path is not None}
    _import(partial(reader.read, tokens, images, splits), out, as_json)


@imports.add
def folder(
    *,
    pictures: Annotated[
        Path,
        typer.Argument(metavar="FOLDER", help="It is searched with all subfolders, but not links."),
    ],
    captions: Annotated[
        Path | None,
        typer.Option(
            help="A .csv, .tsv or .jsonl with file_name, caption and, if you like, split."
        ),
    ] = None,
    exclude: Exclude = None,
    out: Out = Path("data/pictures"),
    as_json: Json = False,
) -> None:
    """Import a folder of pictures: yours.

    Captions are optional: without any, pictures can be searched but not trained on. They are
    read from beach.txt beside beach.jpg, one a line, or from one file for all (--captions).

    \b
    Examples:
      hasse lab data import folder ~/Pictures --out data/mine
      hasse lab data import folder ~/Pictures --captions captions.csv \\
          --out data/mine
    """
    from hasse.models.datasets import folder as reader

    _import(partial(reader.read, pictures, captions, exclude=exclude or []), out, as_json)


def _import(read: Callable[..., tuple[Dataset, SkippedRows]], out: Path, as_json: bool) -> None:
    """Read a dataset, save it in our format, and print a summary."""
    from hasse.models.datasets import save

    with progress("reading pictures") as report:
        dataset, skipped = read(progress=report, limits=picture_limits())
    save(dataset, out)
    _print_summary(dataset, skipped, out, as_json)


def _print_summary(dataset: Dataset, skipped: SkippedRows | None, out: Path, as_json: bool) -> None:
    from hasse.models.datasets.skipped_rows import SkippedRows

    captions = sum(len(image.captions) for image in dataset.images)
    skipped = skipped or SkippedRows()
    if as_json:
        document = {
            "dataset": str(out),
            "name": dataset.name,
            "images": len(dataset),
            "captions": captions,
            "splits": dataset.splits(),
            "passed_over": skipped.passed_over,
            "problems": {
                "total": skipped.total,
                "by_reason": skipped.by_reason,
                "lines": skipped.lines,
            },
        }
        typer.echo(json.dumps(document, indent=2, ensure_ascii=False))
        return
    warn_each(skipped)
    counts = dataset.splits().items()
    splits = ", ".join(f"{name or 'no split'} {number:,}" for name, number in counts)
    size = f"{count(len(dataset), 'picture')} ({splits}), {count(captions, 'caption')}"
    typer.echo(f"{out}: {size}{skipped_summary(skipped)}")
