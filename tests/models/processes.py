"""What each of two processes does in `test_distributed`: train, and stop and go on.

torchrun --standalone --nproc-per-node 2 -m tests.models.processes FOLDER
"""

from __future__ import annotations

import contextlib
import sys
from dataclasses import replace
from pathlib import Path

from models.distributed import world
from models.trainer import TrainingStopped, train
from tests.models.test_trainer import CONFIG, collection, features, pixels, stop_after


def main(folder: Path) -> None:
    """Train on features twice, once without a stop, and on pictures."""
    dataset = collection()
    read = (dataset, features(dataset))
    with world("cpu") as processes:
        train(CONFIG, "colours", folder / "whole", read, read, world=processes)

        # The second process alone is told to stop.
        stop = None if processes.leads else stop_after(5)
        with contextlib.suppress(TrainingStopped):
            train(CONFIG, "colours", folder / "stopped", read, read, world=processes, stop=stop)
            raise AssertionError("nobody stopped")
        train(CONFIG, "colours", folder / "stopped", read, read, world=processes)

        with processes.in_turn():
            if processes.leads:
                learned = pixels(dataset, folder / "pictures")
            else:
                assert (folder / "pictures" / "pixels").is_dir(), "the first has read them"
                learned = pixels(dataset, folder / "again")
        config = replace(CONFIG, epochs=2)
        train(config, "colours", folder / "pixels", learned, learned, world=processes)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
