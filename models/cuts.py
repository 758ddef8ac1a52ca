"""What a teacher sees in cuts of pictures: computed once, for a student to learn from.

Of every picture, `rounds` cuts are drawn: of any place, size and shape, half of them mirrored.
The teacher looks at each once. What is kept are its features of the whole cut and of each of its
parts, scaled to unit length and laid on their main axes:

    axes.safetensors   the mean of the teacher's features, and the axes
    targets.f16        for each cut 1 + parts^2 rows, round after round
    targets.json       how many rounds there are, and what made them
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from safetensors.torch import load_file
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d, normalize

from models.backbone import Backbone
from models.files import write_weights, write_whole
from models.pictures import Cut, cut_out, random_cut, standardised

AXES, TARGETS, MANIFEST = "axes.safetensors", "targets.f16", "targets.json"
AXES_FROM = 3000  # cuts from which the main axes are found
LOOK = 4  # cuts the teacher looks at together
CHUNK = 1024  # cuts between two notes of how far it got

Pixels = NDArray[np.uint8]


class CutsStopped(Exception):
    """The teacher was asked to stop; everything it has seen so far is on disk."""


@dataclass(frozen=True, slots=True)
class CutsConfig:
    """Which cuts are drawn and what of them is kept.

    Attributes:
        rounds: cuts of each picture.
        smallest: the share of a picture's area that a cut has at least.
        longest: the ratio of a cut's sides is at most this.
        side: pixels of the square that the teacher looks at.
        axes: how many of the main axes of its features are kept at most.
        parts: a cut has so many parts along each side.
        bfloat16: let the teacher look in mixed precision.
        seed: of the cuts.
    """

    rounds: int = 12
    smallest: float = 0.3
    longest: float = 4 / 3
    side: int = 224
    axes: int = 256
    parts: int = 3
    bfloat16: bool = True
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Cuts:
    """Cuts of n pictures and what the teacher saw in them, cut `round * n + picture`.

    Attributes:
        pixels: (n, S, S, 3), the pictures.
        targets: (rounds * n, 1 + parts^2, axes), of unit variance over all cuts.
    """

    config: CutsConfig
    pixels: Pixels
    targets: NDArray[np.float16]

    def look(self, cuts: NDArray[np.int64], side: int) -> Pixels:
        """Return cuts as squares: (B,) -> (B, side, side, 3)."""
        n = len(self.pixels)
        return np.stack(
            [
                cut_out(Image.fromarray(self.pixels[cut % n]), self._drawn(cut), side)
                for cut in cuts.tolist()
            ]
        )

    def _drawn(self, cut: int) -> Cut:
        draw = np.random.default_rng([self.config.seed, cut])
        return random_cut(draw, self.config.smallest, self.config.longest)


def whole_and_parts(grid: Tensor, parts: int) -> Tensor:
    """Average a square grid, all and in parts: (B, cells, F) -> (B, 1 + parts^2, F)."""
    side = math.isqrt(grid.shape[1])
    square = grid.transpose(1, 2).reshape(len(grid), -1, side, side)
    cells = adaptive_avg_pool2d(square, parts).flatten(2).transpose(1, 2)
    return torch.cat([grid.mean(1, keepdim=True), cells], 1)


def teach(
    pixels: Pixels,
    teacher: Backbone,
    config: CutsConfig,
    folder: Path,
    *,
    projection: Tensor | None = None,
    progress: Callable[[int, int], None] | None = None,
    stop: Callable[[], bool] | None = None,
) -> Cuts:
    """Let the teacher look at all cuts, or at those it has not seen when an earlier call ended.

    Args:
        pixels: (n, S, S, 3), the pictures.
        teacher: with its grid kept.
        config: which cuts.
        folder: where it is kept.
        projection: (N, F), what a model makes of the teacher's features. Then the axes are those
            of its points, so that the student learns first what tells captions apart.
        progress: told cuts seen and cuts in all.
        stop: asked now and then; when true, `CutsStopped` is raised.
    """
    total = config.rounds * len(pixels)
    made_by = {
        "pictures": _fingerprint(pixels),
        "teacher": teacher.fingerprint(),
        "projection": None if projection is None else _fingerprint(projection.numpy()),
        "config": asdict(config),
    }
    folder.mkdir(parents=True, exist_ok=True)
    network = teacher.for_inference()
    note = json.loads((folder / MANIFEST).read_bytes()) if (folder / MANIFEST).is_file() else {}
    done: int = note["done"] if note.get("made_by") == made_by else 0
    cuts = Cuts(config, pixels, np.empty((0, 0, 0), dtype=np.float16))
    if done == 0:
        _save_axes(folder / AXES, network, cuts, projection)
    basis = load_file(folder / AXES)
    shape = (1 + config.parts**2, basis["axes"].shape[1])
    with (folder / TARGETS).open("r+b" if done else "w+b") as file:
        file.truncate(done * math.prod(shape) * 2)
        file.seek(0, os.SEEK_END)
        while done < total:
            if stop is not None and stop():
                raise CutsStopped(f"the teacher has seen {done:,} of {total:,} cuts")
            chunk = np.arange(done, min(done + CHUNK, total))
            for start in range(0, len(chunk), LOOK):
                seen = _seen(network, cuts, chunk[start : start + LOOK])
                rows = (normalize(seen, dim=-1) - basis["mean"]) @ basis["axes"]
                file.write(rows.to(torch.float16).numpy().tobytes())
            file.flush()
            os.fsync(file.fileno())
            done += len(chunk)
            content = {"made_by": made_by, "done": done}
            write_whole(folder / MANIFEST, json.dumps(content, indent=1).encode())
            if progress is not None:
                progress(done, total)
    targets = np.memmap(folder / TARGETS, "<f2", mode="r", shape=(total, *shape))
    return Cuts(config, pixels, targets)


def _fingerprint(rows: NDArray[Any]) -> str:
    digest = hashlib.sha256()
    for row in rows:
        digest.update(row.tobytes())
    return digest.hexdigest()


def _save_axes(path: Path, network: Backbone, cuts: Cuts, projection: Tensor | None) -> None:
    """Find the main axes of the teacher's features, or of what `projection` makes of them.

    They are those of the first round's cuts, which have unit variance along all axes together.
    """
    config = cuts.config
    chosen = np.arange(min(len(cuts.pixels), AXES_FROM))
    seen = [
        normalize(_seen(network, cuts, chosen[start : start + LOOK])[:, 0], dim=-1)
        for start in range(0, len(chosen), LOOK)
    ]
    features = torch.cat(seen).double()
    mean = features.mean(0)
    if projection is None:
        projection = torch.eye(features.shape[1])
    projection = projection.double()
    spread, axes = torch.linalg.eigh(projection @ torch.cov((features - mean).T) @ projection.T)
    spread, axes = spread.flip(0)[: config.axes], axes.flip(1)[:, : config.axes]
    axes = projection.T @ axes / spread.sum().sqrt()
    write_weights(path, {"mean": mean.float(), "axes": axes.float()})


@torch.inference_mode()
def _seen(network: Backbone, cuts: Cuts, chosen: NDArray[np.int64]) -> Tensor:
    """Return what the teacher sees in cuts: (B,) -> (B, 1 + parts^2, F)."""
    config = cuts.config
    pixels = standardised(torch.from_numpy(cuts.look(chosen, config.side)))
    with torch.autocast("cpu", torch.bfloat16, enabled=config.bfloat16):
        grid = network(pixels)
    return whole_and_parts(grid.float(), config.parts)
