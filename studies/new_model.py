"""The folder of a model that a study makes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hasse.models.checkpoints.model_folder import require_no_model
from hasse.models.files import lock_folder


@contextmanager
def new_model(folder: Path) -> Iterator[None]:
    """Lock the folder of a new model, as `lock_folder` does.

    Raises:
        CheckpointError: it holds a model, which would be lost.
        FolderLockedError: another process holds it.
    """
    with lock_folder(folder):
        require_no_model(folder)
        yield
