"""Which requests come in now: searches need a place, and all others do not."""

from __future__ import annotations

from collections.abc import Callable

from service.admission import Admission
from service.door import Refusal
from service.errors import ServiceError
from service.readiness import Phase, Readiness
from service.routes.searches import searched

_LINE_BYTES = 1_024  # in which the method and the target of a request are looked for


class Reception:
    """The host at the door of one service; see `service.door.Host`."""

    def __init__(self, readiness: Readiness) -> None:
        self._readiness = readiness

    def refusal(self, method: bytes, target: bytes, *, called: bool) -> Refusal | None:
        """Return what a request is refused with, if it is; else it comes in now."""
        return self._refusal(method, target, lambda admission: admission.knock(called=called))

    def refuses(self, method: bytes, target: bytes) -> Refusal | None:
        """Return what a request would be refused with; nobody comes in by that."""
        return self._refusal(method, target, lambda admission: admission.full)

    def stands_in_line(self, data: bytes, turn: Callable[[], None]) -> bool:
        """Tell whether a request that begins so has to wait; `turn` is called when it need not."""
        if self._admission is None or not self._admission.has_line:
            return False
        first = data[:_LINE_BYTES].split(b" ", 2)
        # Without a target, the parser will say what is wrong with it.
        if len(first) < 3 or _searched(first[0], first[1]) is None:
            return False
        self._admission.stand_in_line(turn)
        return True

    def leaves_line(self, turn: Callable[[], None]) -> None:
        """Forget a request that waits."""
        if self._admission is not None:
            self._admission.leave_line(turn)

    def is_stopping(self) -> bool:
        """Tell whether each answer is the last on its connection."""
        return self._readiness.phase is Phase.STOPPING

    def _refusal(
        self, method: bytes, target: bytes, error_of: Callable[[Admission], ServiceError | None]
    ) -> Refusal | None:
        route = _searched(method, target)
        if route is None or self._admission is None:
            return None
        error = error_of(self._admission)
        return None if error is None else Refusal(error, route)

    @property
    def _admission(self) -> Admission | None:
        engine = self._readiness.engine
        return None if engine is None else engine.admission


def _searched(method: bytes, target: bytes) -> str | None:
    return searched(method, target.partition(b"?")[0])
