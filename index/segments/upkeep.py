"""A background thread that merges segments and returns memory to the system."""

from __future__ import annotations

import threading
from collections.abc import Callable

from hasse.index.errors import IndexLockedError
from hasse.index.kernels.threads import lower_priority
from hasse.index.segments.compaction import CompactionResult, ProgressCallback

_NICENESS = 10  # the kernels of a search come first
_CLOSE_TIMEOUT = 5.0  # seconds; an interrupted merge leaves no visible files


class Upkeep:
    """Merges segments and returns memory at regular intervals."""

    def __init__(
        self,
        compact: Callable[[ProgressCallback], CompactionResult],
        release_memory: Callable[[], None],
        seconds: float,
        *,
        on_compaction: Callable[[CompactionResult], None] = lambda result: None,
        on_error: Callable[[Exception], None] = lambda error: None,
    ) -> None:
        """Call both functions every `seconds`, once started; never when they are 0."""
        self._compact = compact
        self._release_memory = release_memory
        self._seconds = seconds
        self._on_compaction = on_compaction
        self._on_error = on_error
        self._closing = threading.Event()
        # A daemon, so that the process can exit during a merge, which may take minutes.
        self._thread = threading.Thread(target=self._run, name="upkeep", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        if self._seconds > 0:
            self._thread.start()

    def close(self) -> None:
        """Stop between two blocks of rows."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(_CLOSE_TIMEOUT)

    def _run(self) -> None:
        lower_priority(_NICENESS)
        reported = ""
        while not self._closing.wait(self._seconds):
            try:
                while self._merge():
                    pass
                self._release_memory()
                reported = ""
            except _Closing:
                return
            except IndexLockedError:
                pass  # another process is compacting
            except Exception as error:
                if str(error) != reported:  # report it once, not at every interval
                    self._on_error(error)
                reported = str(error)

    def _merge(self) -> bool:
        """Merge once; return whether there may be more to merge."""
        result = self._compact(self._check)
        if result.after == result.before and not result.dropped:
            return False
        self._on_compaction(result)
        return True

    def _check(self, _done: int, _total: int) -> None:
        if self._closing.is_set():
            raise _Closing


class _Closing(Exception):
    """Ends the merge under way."""
