"""A small real collection: pictures on disk, a tiny model, and the index it made."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from index.store import Index
from index.types import CaptionRow, ImageRow, ModelIdentity
from models.checkpoints import checkpoint
from tests.tiny import tiny_checkpoint

IMAGES = 12
CAPTIONS_EACH = 2
WORDS = ("dog", "cat", "child", "person", "red animal", "blue park")


def picture(seed: int, size: tuple[int, int] = (64, 48)) -> Image.Image:
    """Draw noise that is the same for the same seed."""
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def png(seed: int = 3) -> bytes:
    """Return the picture of a seed as a file."""
    out = BytesIO()
    picture(seed).save(out, "PNG")
    return out.getvalue()


def make_collection(folder: Path, captions_each: int = CAPTIONS_EACH) -> Path:
    """Write pictures, a checkpoint and an index below `folder`; return the index's folder."""
    model_folder = tiny_checkpoint(folder / "model")
    loaded = checkpoint.load(model_folder)
    pictures = folder / "pictures"
    pictures.mkdir()
    images, captions, drawn = [], [], []
    for at in range(IMAGES):
        image_id = 1000 + at
        drawn.append(picture(at))
        path = pictures / f"picture-{at}.png"
        drawn[-1].save(path)
        images.append(ImageRow(image_id, path.name, str(path), 64, 48, "test"))
        captions += [
            CaptionRow(10 * image_id + n, image_id, f"a {WORDS[(at + n) % len(WORDS)]} runs")
            for n in range(captions_each)
        ]
    identity = ModelIdentity(
        loaded.name,
        loaded.fingerprint,
        loaded.model.config.dimension,
        loaded.model.config.score,
        str(model_folder),
    )
    with Index.create(folder / "index", identity, threads=1) as index:
        index.add(
            images,
            loaded.model.encode_images(drawn),
            captions,
            loaded.model.encode_captions([row.text for row in captions]),
        )
    return folder / "index"


def without_paths(answer: Any) -> Any:
    """Return an answer without paths: only commands and `open_index` show absolute ones."""
    hits = [
        {name: hit[name] for name in hit if name not in ("path", "paths")} for hit in answer["hits"]
    ]
    return answer | {"hits": hits}
