"""`hasse study photographs phrases`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hasse.service.plural import count


def phrases(
    *,
    model: Annotated[
        Path, typer.Option("--model", "-m", metavar="DIR", help="The calibrated model.")
    ],
    features: Annotated[
        list[Path],
        typer.Option(
            "--features",
            "-f",
            metavar="DIR",
            help="Features of pictures of all kinds, of 'hasse lab features'; repeat it for "
            "several.",
        ),
    ],
) -> None:
    """Let a model of photographs put captions together from phrases.

    What somebody does and where counts where few of the pictures are nearer to it. The phrases go
    to the folder `captioner` of the model.

    \b
    Example:
      hasse study photographs phrases --model data/grounded \\
          --features data/class-features
    """
    import numpy as np

    from hasse.lab.features.feature_store import FeatureStore
    from hasse.models.captioning.phrases import folder_of, save
    from hasse.models.checkpoints import checkpoint, named_models
    from hasse.studies.photographs.usual_phrases import USUAL
    from hasse.studies.phrase_limits import limits_of

    loaded = checkpoint.load(named_models.find(model))
    stores = [FeatureStore.open(folder) for folder in features]
    rows = [store.select(np.unique(store.image_ids), regions=True) for store in stores]
    points = np.concatenate([loaded.model.encode_features(each) for each in rows])
    save(USUAL, limits_of(USUAL, points, loaded), loaded)
    limits, pictures = count(len(USUAL.limited), "limit"), count(len(points), "picture")
    typer.echo(f"{folder_of(loaded)}: {limits} by {pictures}")
