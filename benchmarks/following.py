"""How long an index takes to follow a folder of pictures.

    python -m benchmarks.following [--pictures 10000] [--folder FOLDER]

draws a folder of pictures, indexes it by a tiny model, and times the command `hasse add`
when nothing has changed and when ten pictures have. Then it times how soon a watch shows a new
file.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Thread

import numpy as np
import torch
from PIL import Image

from benchmarks.report import Line, finish, machine, parser_of
from hasse.index.store import Index
from hasse.lab.checkpoints import learned_model
from hasse.lab.encoders.order_embedding import OrderEmbedding
from hasse.models.checkpoints import checkpoint
from hasse.models.checkpoints.checkpoint import Checkpoint
from hasse.models.encoders.model_config import ModelConfig
from hasse.models.images.preprocessing import Preprocessing
from hasse.models.vocabulary import Vocabulary
from hasse.service.writing import indexing
from hasse.service.writing.folders.encoders import Encoders
from hasse.service.writing.folders.scan import scan
from hasse.service.writing.folders.sync import FolderSync
from hasse.service.writing.folders.watch import FolderWatch
from hasse.service.writing.image_source import ImageSource

_CHANGES = 10


def main() -> None:
    """Print the table."""
    arguments = parser_of(__doc__)
    arguments.add_argument("--pictures", type=int, default=10_000)
    arguments.add_argument("--folder", type=Path)
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as place:
        _measure(Path(place), given.pictures)


def _measure(place: Path, number: int) -> None:
    model = _tiny(place / "model")
    pictures, folder = place / "pictures", place / "index"
    places = [pictures / f"{at // 100:04}" / f"{at}.jpg" for at in range(number)]
    with ThreadPoolExecutor() as pool:
        list(pool.map(_draw, places, range(number)))
    time.sleep(2.5)  # files that were just written are read again
    with Index.create(folder, indexing.identity_of(model)) as index:
        _sync(index, pictures, model)
    at = machine()
    took = {f"nothing changed, run {at + 1}": _command(folder, pictures) for at in range(3)}
    for changed in range(_CHANGES):
        _draw(pictures / "0000" / f"{changed}.jpg", number + changed)
    took[f"{_CHANGES} changed, encoding included"] = _command(folder, pictures)
    lines = [Line(f"hasse add, {what}", f"{seconds:.2f} s") for what, seconds in took.items()]
    seconds = _watched(folder, pictures, model)
    lines.append(Line("watch, from a new file to its search", f"{seconds:.2f} s"))
    finish(f"{number:,} pictures", lines, at)


def _command(folder: Path, pictures: Path) -> float:
    command = [
        sys.executable,
        "-m",
        "hasse",
        "add",
        str(pictures),
        "--library",
        str(folder),
    ]
    started = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - started


def _watched(folder: Path, pictures: Path, model: Checkpoint) -> float:
    stop, seen = Event(), Event()
    with Index.open(folder) as index:
        watch = FolderWatch(index, _encoders(model), on_change=lambda *_: seen.set(), warn=print)
        thread = Thread(target=watch.run, args=(stop,))
        thread.start()
        time.sleep(10)  # for the first look to end
        seen.clear()
        started = time.perf_counter()
        _draw(pictures / "new.jpg", 10**7)
        seen.wait()
        took = time.perf_counter() - started
        stop.set()
        thread.join()
    return took


def _sync(index: Index, pictures: Path, model: Checkpoint) -> None:
    FolderSync(index, scan([pictures]), remove=True).apply(_encoders(model))


def _encoders(model: Checkpoint) -> Encoders:
    return Encoders(lambda: model, ImageSource)


def _draw(path: Path, seed: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (48, 64, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)


def _tiny(folder: Path) -> Checkpoint:
    torch.manual_seed(0)
    config = ModelConfig(
        score="order", backbone="torchvision/shufflenet_v2_x0_5", dimension=16, word_dimension=8
    )
    model = OrderEmbedding(config, Vocabulary(["a", "dog"]), Preprocessing(resize=36, crop=32))
    learned_model.save(folder, model.eval(), "tiny", {})
    return checkpoint.load(folder)


if __name__ == "__main__":
    main()
