"""What each of two processes does in `test_distributed`: train, and stop and go on.

torchrun --standalone --nproc-per-node 2 -m tests.models.processes FOLDER
"""

from __future__ import annotations

import contextlib
import sys
import time
from dataclasses import replace
from pathlib import Path

from hasse.lab.training.distributed import world
from hasse.lab.training.inputs import TrainingInputs
from hasse.lab.training.run import TrainingError, TrainingStopped
from hasse.lab.training.state import FILE_NAME
from hasse.lab.training.trainer import RetrievalTraining
from hasse.models.files import FolderLockedError, lock_folder
from tests.lab.training.colours import CONFIG, collection, features, pixels, stop_after


class SlowlySaved(RetrievalTraining):
    """Writes each state half a second late."""

    def save_state(self) -> None:
        """Wait, then save."""
        if self.world.leads:
            time.sleep(0.5)
        super().save_state()


def main(folder: Path) -> None:
    """Train on features twice, once without a stop, and on pictures; hold folders together."""
    dataset = collection()
    read = (dataset, features(dataset))
    with world("cpu") as processes:
        RetrievalTraining(
            CONFIG, folder / "whole", TrainingInputs(read, read), world=processes
        ).train()

        # The second process alone is told to stop, and the first is slow to write.
        stop = None if processes.leads else stop_after(5)
        with contextlib.suppress(TrainingStopped):
            SlowlySaved(
                CONFIG, folder / "stopped", TrainingInputs(read, read), world=processes
            ).train(stop=stop)
            raise AssertionError("nobody stopped")
        with contextlib.suppress(TrainingError):
            own = folder / "stopped" if processes.leads else folder / "another"
            RetrievalTraining(CONFIG, own, TrainingInputs(read, read), world=processes).train()
            raise AssertionError("one went on and one began")
        SlowlySaved(CONFIG, folder / "stopped", TrainingInputs(read, read), world=processes).train()
        state = (folder / "stopped" / FILE_NAME).read_bytes()
        RetrievalTraining(
            CONFIG, folder / "stopped", TrainingInputs(read, read), world=processes
        ).train()
        assert state == (folder / "stopped" / FILE_NAME).read_bytes(), "it had ended"

        with processes.in_turn():
            if processes.leads:
                learned = pixels(dataset, folder / "pictures")
            else:
                assert (folder / "pictures" / "pixels").is_dir(), "the first has read them"
                learned = pixels(dataset, folder / "again")
        with processes.lock_folder(folder / "held"):
            processes.wait()
            with contextlib.suppress(FolderLockedError), lock_folder(folder / "held"):
                raise AssertionError("another one is in it too")
            processes.wait()  # until both have tried
        with lock_folder(folder / "others") if processes.leads else contextlib.nullcontext():
            processes.wait()
            with contextlib.suppress(FolderLockedError), processes.lock_folder(folder / "others"):
                raise AssertionError("another one is in it")

        config = replace(CONFIG, epochs=16)
        RetrievalTraining(
            config, folder / "pixels", TrainingInputs(learned, learned), world=processes
        ).train()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
