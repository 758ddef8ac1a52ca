"""A small real collection: pictures on disk, a tiny model, and the index it made."""

from __future__ import annotations

import shutil
from dataclasses import replace
from functools import cache
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from PIL import Image

from hasse.index.store import Index
from hasse.index.types import CaptionRow, ImageRow
from hasse.models.checkpoints import checkpoint
from hasse.models.checkpoints.checkpoint import Checkpoint
from hasse.models.embedding_model import Points
from hasse.service.writing.indexing import identity_of
from tests.tiny import TINY, tiny_checkpoint

IMAGES = 12
CAPTIONS_EACH = 2
WORDS = ("dog", "cat", "child", "person", "red animal", "blue park")


def picture(seed: int, size: tuple[int, int] = (64, 48)) -> Image.Image:
    """Draw noise that is the same for the same seed."""
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    return Image.fromarray(pixels)


@cache
def png(seed: int = 3) -> bytes:
    """Return the picture of a seed as a file."""
    out = BytesIO()
    picture(seed).save(out, "PNG")
    return out.getvalue()


@cache
def _model(backbone: str) -> tuple[TemporaryDirectory[str], Checkpoint]:
    """Save and load the tiny model once for all collections of this process."""
    folder = TemporaryDirectory(prefix="hasse-tiny-")
    return folder, checkpoint.load(tiny_checkpoint(Path(folder.name), backbone=backbone))


@cache
def _image_points(backbone: str) -> Points:
    return _model(backbone)[1].model.encode_images([picture(at) for at in range(IMAGES)])


@cache
def _caption_points(backbone: str, texts: tuple[str, ...]) -> Points:
    return _model(backbone)[1].model.encode_captions(texts)


def make_collection(folder: Path, captions_each: int = CAPTIONS_EACH, backbone: str = TINY) -> Path:
    """Write pictures, a checkpoint and an index below `folder`; return the index's folder.

    A service in a process of its own needs another network; see `tests.tiny_network`.
    """
    saved, loaded = _model(backbone)
    model_folder = shutil.copytree(saved.name, folder / "model")
    pictures = folder / "pictures"
    pictures.mkdir()
    images, captions = [], []
    for at in range(IMAGES):
        image_id = 1000 + at
        path = pictures / f"picture-{at}.png"
        path.write_bytes(png(at))
        images.append(ImageRow(image_id, path.name, str(path), 64, 48, "test"))
        captions += [
            CaptionRow(10 * image_id + n, image_id, f"a {WORDS[(at + n) % len(WORDS)]} runs")
            for n in range(captions_each)
        ]
    identity = replace(identity_of(loaded), checkpoint=str(model_folder))
    texts = tuple(row.text for row in captions)
    with Index.create(folder / "index", identity, threads=1) as index:
        index.add(images, _image_points(backbone), captions, _caption_points(backbone, texts))
    return folder / "index"


def without_paths(answer: Any) -> Any:
    """Return an answer without paths: only commands and `open_index` show absolute ones."""
    hits = [
        {name: hit[name] for name in hit if name not in ("path", "paths")} for hit in answer["hits"]
    ]
    return answer | {"hits": hits}
