"""`hasse lab features`: computes the features of pictures with a frozen network, once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from hasse.lab.commands.long_running import CONTINUE_MESSAGE, consistent_options, stoppable
from hasse.lab.commands.options import DatasetFolder, OnCluster
from hasse.models.encoders.names import LITE
from hasse.service.cli.terminal.configuration import picture_limits
from hasse.service.cli.terminal.errors import CommandError, resumable
from hasse.service.cli.terminal.options import Encoding
from hasse.service.cli.terminal.progress import progress, tell
from hasse.service.plural import count

if TYPE_CHECKING:
    from hasse.lab.features.feature_store import FeatureStore
    from hasse.models.datasets import Dataset

_NETWORK_DEFAULT = "as the network's library does"

FeatureFolder = Annotated[
    Path, typer.Option("--out", "-o", metavar="DIR", help="Where the features are kept.")
]
BackboneName = Annotated[
    str,
    typer.Option(
        help="torchvision/NAME, timm/NAME or open_clip/NAME: torchvision/vgg19 is the paper's, "
        "the default comes with its weights. docs/encoders.md compares them."
    ),
]
Weights = Annotated[
    Path | None,
    typer.Option(
        metavar="PATH",
        help="Its weights: .safetensors, or a state dict as .pth. Of open_clip also a folder.",
    ),
]
DownloadWeights = Annotated[
    bool,
    typer.Option(
        "--download-weights", help="Download the weights that its library publishes, once."
    ),
]
Crops = Annotated[
    Literal["1", "10"],
    typer.Option(help="1: the centre. 10: the paper's, ten times the work, some points more."),
]
Views = Annotated[
    int,
    typer.Option(
        min=0,
        max=1000,
        help="Random crops of each picture whose features are kept too, for training to vary "
        "what it reads. Each is as much work as a crop.",
    ),
]
Regions = Annotated[
    bool | None,
    typer.Option(
        show_default="where the network sees a grid, with one crop",
        help="Whether to keep the features of nine regions of each picture, and of each view, "
        "beside those of the whole: no more work, ten times the space. The recipe hasse "
        "learns more from them.",
    ),
]
Resize = Annotated[
    int | None,
    typer.Option(min=1, show_default=_NETWORK_DEFAULT, help="Pixels of the shortest side."),
]
Crop = Annotated[
    int | None,
    typer.Option(min=1, show_default=_NETWORK_DEFAULT, help="Pixels of the square cut from it."),
]
Framing = Annotated[
    Literal["centre", "whole"] | None,
    typer.Option(
        show_default=_NETWORK_DEFAULT,
        help="centre keeps a picture's proportions and may miss its ends; whole squeezes all "
        "of it into the square.",
    ),
]

Resampling = Annotated[
    Literal["bilinear", "bicubic"] | None,
    typer.Option("--interpolation", show_default=_NETWORK_DEFAULT, help="How pictures are scaled."),
]


def features(
    *,
    dataset: DatasetFolder,
    out: FeatureFolder,
    backbone: BackboneName = LITE,
    weights: Weights = None,
    download_weights: DownloadWeights = False,
    crops: Crops = "1",
    views: Views = 0,
    regions: Regions = None,
    resize: Resize = None,
    crop: Crop = None,
    framing: Framing = None,
    interpolation: Resampling = None,
    encoding: Encoding,
    cluster: OnCluster = None,
) -> None:
    """Compute features of all pictures with a network that stays as it is.

    It is the slow part of training, so it is done once. Stop it at any time and run the same
    command to go on. A damaged picture is left out with one line that says why, and one that has
    another size or time of change than before is read again.

    \b
    Examples:
      hasse lab features data/mine --out data/mine-features
      hasse lab features data/coco --backbone torchvision/resnet50 \\
          --download-weights --out data/coco-features
      hasse lab features data/flickr8k --backbone torchvision/vgg19 \\
          --weights vgg19.pth --crops 10 --out data/flickr8k-features
    """
    from hasse.lab.encoders.registry import build_backbone
    from hasse.lab.features.extraction import ExtractionOptions, extract
    from hasse.models.datasets import load
    from hasse.service.core.device import pick_device

    device = pick_device(encoding.device)
    collection = load(dataset)
    if regions and crops != "1":
        raise CommandError("regions need one crop: leave --regions or --crops out")
    if download_weights and weights is not None:
        raise CommandError(f"--weights names {weights}: leave it or --download-weights out")
    network = build_backbone(backbone, weights)
    chosen: dict[str, Any] = {
        "resize": resize,
        "crop": crop,
        "framing": framing,
        "interpolation": interpolation,
        "crops": int(crops),
    }
    with consistent_options():
        preprocessing = replace(
            network.preprocessing,
            **{name: value for name, value in chosen.items() if value is not None},
        )
    if weights is None:
        weights = _default_weights(backbone, download=download_weights)
        if weights is not None:
            network.load_weights(weights)
    with_regions = crops == "1" and network.has_grid() if regions is None else regions
    options = ExtractionOptions(
        views, with_regions, device, encoding.batch_size, encoding.workers, picture_limits()
    )
    batches = None
    if cluster is not None:
        from hasse.lab.pipelines.cluster_encoding import Extraction, features_of

        file = None if weights is None else weights.resolve()
        extraction = Extraction(backbone, file, network.fingerprint(), preprocessing, options)
        batches = features_of(cluster, extraction)
    run = partial(
        extract, collection, network, preprocessing, out, options=options, batches=batches
    )
    _print_count(_extract(run, out, weights), collection)


def _extract(run: Callable[..., FeatureStore], out: Path, weights: Path | None) -> FeatureStore:
    from hasse.lab.features.extraction import ExtractionStopped
    from hasse.lab.pipelines.training_inputs import note_weights

    message = f"finished features are kept in {out}; {CONTINUE_MESSAGE}"
    with (
        progress("features") as report,
        stoppable(lambda: CONTINUE_MESSAGE, ExtractionStopped) as stop,
        resumable(lambda: message),
    ):
        store = run(progress=report, stop=stop, skipped=tell, changed=tell)
    if weights is not None:
        note_weights(out, weights)
    return store


def _print_count(store: FeatureStore, collection: Dataset) -> None:
    stored = set(store.image_ids.tolist())  # may include pictures that left the dataset
    number = sum(image.id in stored for image in collection.images)
    typer.echo(f"{store.folder}: {number:,} of {count(len(collection), 'picture')}")


def _default_weights(backbone: str, *, download: bool) -> Path | None:
    """Download the weights of a network, or return None where its package includes them.

    Raises:
        CommandError: the weights must be downloaded, and `download` is false.
    """
    from hasse.lab.encoders import registry

    if download:
        return registry.download_weights(backbone, tell)
    if backbone != LITE:
        raise CommandError(
            "name the network's weights with --weights FILE, or download those that its library "
            "publishes with --download-weights: features of a network that has learned nothing "
            "say nothing"
        )
    return None
