"""Which requests come in now: searches need a place, and all others do not."""

from __future__ import annotations

from collections.abc import Callable

from service.core.admission import Admission
from service.errors import ServiceError
from service.keeper import Refusal
from service.routes.searches import searched
from service.runtime.readiness import Phase, Readiness

_LINE_BYTES = 1_024  # in which the method and the target of a request are looked for


class Reception:
    """The host at the door of one service; see `service.keeper.Host`."""

    def __init__(self, readiness: Readiness) -> None:
        self._readiness = readiness

    def refusal(self, method: bytes, target: bytes, *, called: bool) -> Refusal | None:
        """Return what a request is refused with, if it is; else it comes in now."""
        route = _searched(method, target)
        if route is None or self._admission is None:
            return None
        error = self._admission.knock(called=called)
        return None if error is None else Refusal(error, route)

    def full(self) -> ServiceError | None:
        """Return what all searches are refused with, if they would be now."""
        return None if self._admission is None else self._admission.full

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

    @property
    def _admission(self) -> Admission | None:
        engine = self._readiness.engine
        return None if engine is None else engine.admission


def _searched(method: bytes, target: bytes) -> str | None:
    return searched(method, target.partition(b"?")[0])
