"""Runs a process beside the service that follows folders, and restarts it when it ends."""

from __future__ import annotations

import functools
import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from hasse.index.creation import open_catalog
from hasse.models.errors import HasseError
from hasse.service.core.follower_state import STATE, FollowerState
from hasse.service.settings import Settings
from hasse.service.telemetry import logs
from hasse.service.telemetry.logs import event
from hasse.service.writing.folders.encoders import Encoders

if TYPE_CHECKING:
    from hasse.index.store import Index
    from hasse.models.checkpoints.checkpoint import Checkpoint
    from hasse.service.writing.image_source import ImageSource

_STOP_SECONDS = 10.0
_POLL_SECONDS = 0.2
_MAX_WAIT_SECONDS = 60.0  # before the process is restarted

Follow = Callable[[Settings], None]


@contextmanager
def following(settings: Settings, follow: Follow | None = None) -> Iterator[None]:
    """Sync the library of a service with its folders, if it has any, while the block runs."""
    if not settings.follow or not _has_folders(settings.index):
        yield
        return
    stop, started = threading.Event(), threading.Event()
    with TemporaryDirectory(prefix="hasse-follower-") as folder:
        os.environ[STATE] = str(Path(folder, "state.json"))  # the workers inherit it
        supervisor = threading.Thread(
            target=_supervise, args=(settings, follow or _follow, started, stop)
        )
        supervisor.start()
        started.wait()
        try:
            yield
        finally:
            stop.set()
            supervisor.join()
            del os.environ[STATE]


def _has_folders(library: Path) -> bool:
    with closing(open_catalog(library)) as catalog:
        return bool(catalog.locations(library.resolve()).roots)


def _supervise(
    settings: Settings, follow: Follow, started: threading.Event, stop: threading.Event
) -> None:
    """Run the follower until `stop` is set; restart it whenever it ends."""
    restarts, wait = 0, 1.0
    while not stop.is_set():
        process = multiprocessing.get_context("spawn").Process(
            target=follow, args=(settings,), name="hasse-follow", daemon=True
        )
        try:
            process.start()
        except OSError as error:  # the system has no more processes or files
            event("follower not started", logging.ERROR, reason=str(error))
            started.set()
            stop.wait(wait)
            continue
        FollowerState(True, restarts).write()
        started.set()
        started_at = time.monotonic()
        while process.exitcode is None and not stop.is_set():
            process.join(_POLL_SECONDS)
        if process.exitcode is None:
            _stop_process(process)
            return
        wait = (
            1.0
            if time.monotonic() - started_at > _MAX_WAIT_SECONDS
            else min(2 * wait, _MAX_WAIT_SECONDS)
        )
        restarts += 1
        FollowerState(False, restarts).write()
        event("follower ended", logging.ERROR, status=process.exitcode, restart_seconds=wait)
        stop.wait(wait)


def _stop_process(process: multiprocessing.process.BaseProcess) -> None:
    process.terminate()
    process.join(_STOP_SECONDS)
    if process.is_alive():  # its work so far is durable
        process.kill()
        process.join()


def encoders_of(index: Index, settings: Settings, source: Callable[[], ImageSource]) -> Encoders:
    """Return the encoders of an index. The model is loaded once, when it is first needed."""

    @functools.cache
    def load() -> Checkpoint:
        from hasse.service.core.loading import ModelLoader

        return ModelLoader(settings).of(index)

    return Encoders(load, source)


def _follow(settings: Settings) -> None:
    """Follow the folders until SIGTERM, or until the parent process ends."""
    from hasse.index.store import Index
    from hasse.service.runtime.previewing import maintain_previews
    from hasse.service.runtime.reading import BackgroundReading
    from hasse.service.runtime.workers import stop_with_parent
    from hasse.service.writing.folders.plan import Counts
    from hasse.service.writing.folders.watch import FolderWatch
    from hasse.service.writing.image_source import ImageSource

    logs.configure(settings.log_format, settings.log_level)
    stop = threading.Event()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal is for the parent
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    threading.Thread(target=stop_with_parent, daemon=True).start()
    reading = BackgroundReading(settings.index)

    def note_change(counts: Counts, generation: int) -> None:
        if settings.ocr and (counts.added or counts.changed):
            reading.start()
        event(
            "followed",
            generation=generation,
            added=counts.added,
            moved=counts.moved,
            changed=counts.changed,
            removed=counts.removed,
        )

    try:
        with Index.open(settings.index, verify="sizes") as index:
            if settings.ocr:
                reading.start()
            # The thread ends with the process: a preview is written completely or not at all.
            threading.Thread(target=maintain_previews, args=(index, settings), daemon=True).start()
            source = ImageSource(limits=settings.picture_limits)
            FolderWatch(
                index,
                encoders_of(index, settings, lambda: source),
                on_change=note_change,
                warn=lambda line: event("following", logging.WARNING, reason=line),
            ).run(stop)
    except HasseError as error:
        event("following ended", logging.ERROR, reason=str(error))
    finally:
        reading.stop()
