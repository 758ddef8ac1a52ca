"""A process beside the service that follows folders, started again when it ends."""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from hasse.index.creation import open_catalog
from hasse.models.errors import HasseError
from hasse.service.runtime import logs
from hasse.service.runtime.logs import event
from hasse.service.settings import Settings

# Environment variable with the place of the state of the follower, for workers.
_STATE = "HASSE_FOLLOWER_STATE"
_STOP_SECONDS = 10.0
_LOOK_SECONDS = 0.2
_LONGEST_WAIT = 60.0  # before the process is started again

Follow = Callable[[Settings], None]


@dataclass(frozen=True, slots=True)
class FollowerState:
    """Whether the process that follows folders runs, and how often it was started again."""

    runs: bool
    restarts: int

    @classmethod
    def read(cls) -> FollowerState | None:
        """Return the state of the follower of this service, if it has one."""
        place = os.environ.get(_STATE)
        try:
            return None if place is None else cls(**json.loads(Path(place).read_text()))
        except (OSError, ValueError):  # the service is stopping
            return None

    def write(self) -> None:
        """Let the workers of this service see the state."""
        place = Path(os.environ[_STATE])
        partial = place.with_suffix(".partial")
        partial.write_text(json.dumps(asdict(self)))
        partial.replace(place)


@contextmanager
def following(settings: Settings, follow: Follow | None = None) -> Iterator[None]:
    """Keep the library of a service up to date with its folders, if any, while the block runs."""
    if not settings.follow or not _has_folders(settings.index):
        yield
        return
    stop, started = threading.Event(), threading.Event()
    with TemporaryDirectory(prefix="hasse-follower-") as place:
        os.environ[_STATE] = str(Path(place, "state.json"))  # the workers inherit it
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
            del os.environ[_STATE]


def _has_folders(library: Path) -> bool:
    with closing(open_catalog(library)) as catalog:
        return bool(catalog.locations(library.resolve()).roots)


def _supervise(
    settings: Settings,
    follow: Follow,
    started: threading.Event,
    stop: threading.Event,
) -> None:
    """Run the follower until `stop` is set; start it again whenever it ends."""
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
        begun = time.monotonic()
        while process.exitcode is None and not stop.is_set():
            process.join(_LOOK_SECONDS)
        if process.exitcode is None:
            _end(process)
            return
        wait = 1.0 if time.monotonic() - begun > _LONGEST_WAIT else min(2 * wait, _LONGEST_WAIT)
        restarts += 1
        FollowerState(False, restarts).write()
        event("follower ended", logging.ERROR, status=process.exitcode, restart_seconds=wait)
        stop.wait(wait)


def _end(process: multiprocessing.process.BaseProcess) -> None:
    process.terminate()
    process.join(_STOP_SECONDS)
    if process.is_alive():  # its work so far is durable
        process.kill()
        process.join()


def _follow(settings: Settings) -> None:
    """Follow until SIGTERM, or until the parent process has ended."""
    from hasse.index.store import Index
    from hasse.service.runtime.previewing import keep_previews
    from hasse.service.runtime.reading import BackgroundReading
    from hasse.service.runtime.workers import stop_with_parent
    from hasse.service.writing.folders.encoders import Encoders
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
            # It ends with the process: each preview is written whole or not at all.
            threading.Thread(target=keep_previews, args=(index, settings), daemon=True).start()
            source = ImageSource(limits=settings.picture_limits)
            FolderWatch(
                index,
                Encoders.of(index, settings, lambda: source),
                on_change=note_change,
                warn=lambda line: event("following", logging.WARNING, reason=line),
            ).run(stop)
    except HasseError as error:
        event("following ended", logging.ERROR, reason=str(error))
    finally:
        reading.stop()
