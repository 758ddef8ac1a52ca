"""A process beside the service that keeps its index in step with folders."""

from __future__ import annotations

import logging
import multiprocessing
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from hasse.models.errors import HasseError
from hasse.service.runtime import logs
from hasse.service.runtime.logs import event
from hasse.service.settings import Settings

_STOP_SECONDS = 10.0


@contextmanager
def following(settings: Settings, folders: Sequence[Path]) -> Iterator[None]:
    """Keep the index of a service in step with folders while the block runs."""
    if not folders:
        yield
        return
    process = multiprocessing.get_context("spawn").Process(
        target=_follow, args=(settings, list(folders)), name="hasse-follow", daemon=True
    )
    process.start()
    try:
        yield
    finally:
        process.terminate()
        process.join(_STOP_SECONDS)
        if process.is_alive():  # what it has done is durable
            process.kill()
            process.join()


def _follow(settings: Settings, folders: Sequence[Path]) -> None:
    """Follow until SIGTERM, or until the parent process has ended."""
    from hasse.index.store import Index
    from hasse.service.pipelines.dataset_encoding import ImageSource
    from hasse.service.pipelines.folders.sync import encoders_of
    from hasse.service.pipelines.folders.watch import FolderWatch
    from hasse.service.runtime.workers import stop_with_parent

    logs.configure(settings.log_format, settings.log_level)
    stop = threading.Event()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal is for the parent
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    threading.Thread(target=stop_with_parent, daemon=True).start()
    try:
        with Index.open(settings.index, verify="sizes") as index:
            source = ImageSource(limits=settings.picture_limits)
            FolderWatch(
                index,
                folders,
                encoders_of(index, settings.model, settings.device, lambda: source),
                limits=settings.picture_limits,
                on_change=lambda counts, generation: event(
                    "followed",
                    generation=generation,
                    added=counts.added,
                    moved=counts.moved,
                    changed=counts.changed,
                    removed=counts.removed,
                ),
                say=lambda line: event("following", logging.WARNING, reason=line),
            ).run(stop)
    except HasseError as error:
        event("following ended", logging.ERROR, reason=str(error))
