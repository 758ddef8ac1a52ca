"""A thread that merges segments and returns memory in the background, behind searches."""

from __future__ import annotations

import threading
from collections.abc import Callable

from hasse.index.errors import IndexLockedError
from hasse.index.kernels.threads import step_back
from hasse.index.segments.compaction import Compacted, ProgressCallback

_NICENESS = 10  # the kernels of a search come first
_CLOSE_TIMEOUT = 5.0  # seconds; a merge that is cut off leaves nothing behind


class Upkeep:
    """Looks now and then whether there is something to merge."""

    def __init__(
        self,
        compact: Callable[[ProgressCallback], Compacted],
        release_memory: Callable[[], None],
        seconds: float,
        *,
        on_compaction: Callable[[Compacted], None] = lambda done: None,
        on_error: Callable[[Exception], None] = lambda error: None,
    ) -> None:
        """Call both functions every `seconds`, once started; never when they are 0."""
        self._compact = compact
        self._release_memory = release_memory
        self._seconds = seconds
        self._on_compaction = on_compaction
        self._on_error = on_error
        self._closing = threading.Event()
        # At exit nothing waits for the minutes that a large merge may still take.
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
        step_back(_NICENESS)
        reported = ""
        while not self._closing.wait(self._seconds):
            try:
                while self._merged():
                    pass
                self._release_memory()
                reported = ""
            except _Closing:
                return
            except IndexLockedError:
                pass  # another process is compacting
            except Exception as error:
                if str(error) != reported:  # once until it has gone well, not every few seconds
                    self._on_error(error)
                reported = str(error)

    def _merged(self) -> bool:
        """Merge what is due; return True when there may be more to merge."""
        done = self._compact(self._check)
        if done.after == done.before and not done.dropped:
            return False
        self._on_compaction(done)
        return True

    def _check(self, _done: int, _total: int) -> None:
        if self._closing.is_set():
            raise _Closing


class _Closing(Exception):
    """The merge under way is no longer wanted."""
