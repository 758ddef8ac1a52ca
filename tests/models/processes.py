"""What each of two processes does in `test_distributed`: train, and stop and go on.

torchrun --standalone --nproc-per-node 2 -m tests.models.processes FOLDER
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

from models.files import FolderTakenError, alone_in
from models.training import trainer
from models.training.distributed import world
from models.training.state import FILE_NAME, save_state
from models.training.trainer import TrainingError, TrainingStopped, train
from tests.models.training.test_trainer import CONFIG, collection, features, pixels, stop_after


@contextlib.contextmanager
def slow_states() -> Iterator[None]:
    """Write each state of a training half a second late."""

    def late(*state: Any) -> None:
        time.sleep(0.5)
        save_state(*state)

    with mock.patch.object(trainer, "save_state", late):
        yield


def main(folder: Path) -> None:
    """Train on features twice, once without a stop, and on pictures; hold folders together."""
    dataset = collection()
    read = (dataset, features(dataset))
    with world("cpu") as processes:
        train(CONFIG, "colours", folder / "whole", read, read, world=processes)

        # The second process alone is told to stop, and the first is slow to write.
        stop = None if processes.leads else stop_after(5)
        with contextlib.suppress(TrainingStopped), slow_states():
            train(CONFIG, "colours", folder / "stopped", read, read, world=processes, stop=stop)
            raise AssertionError("nobody stopped")
        with contextlib.suppress(TrainingError):
            own = folder / "stopped" if processes.leads else folder / "another"
            train(CONFIG, "colours", own, read, read, world=processes)
            raise AssertionError("one went on and one began")
        with slow_states():
            train(CONFIG, "colours", folder / "stopped", read, read, world=processes)
        state = (folder / "stopped" / FILE_NAME).read_bytes()
        train(CONFIG, "colours", folder / "stopped", read, read, world=processes)
        assert state == (folder / "stopped" / FILE_NAME).read_bytes(), "it had ended"

        with processes.in_turn():
            if processes.leads:
                learned = pixels(dataset, folder / "pictures")
            else:
                assert (folder / "pictures" / "pixels").is_dir(), "the first has read them"
                learned = pixels(dataset, folder / "again")
        with processes.alone_in(folder / "held"):
            processes.wait()
            with contextlib.suppress(FolderTakenError), alone_in(folder / "held"):
                raise AssertionError("another one is in it too")
            processes.wait()  # until both have tried
        with alone_in(folder / "others") if processes.leads else contextlib.nullcontext():
            processes.wait()
            with contextlib.suppress(FolderTakenError), processes.alone_in(folder / "others"):
                raise AssertionError("another one is in it")

        config = replace(CONFIG, epochs=2)
        train(config, "colours", folder / "pixels", learned, learned, world=processes)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
