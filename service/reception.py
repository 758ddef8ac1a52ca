"""Which requests come in now: searches need a place, and all others do not."""

from __future__ import annotations

from collections.abc import Callable

from service.door import Refusal
from service.readiness import Phase, Readiness
from service.routes.searches import searched


class Reception:
    """The host at the door of one service; see `service.door.Host`."""

    def __init__(self, readiness: Readiness) -> None:
        self._readiness = readiness

    def refusal(self, method: bytes, target: bytes) -> Refusal | None:
        """Return what a request is refused with, if it is; else it comes in now."""
        route = _searched(method, target)
        if route is None or self._readiness.engine is None:
            return None
        error = self._readiness.engine.admission.knock()
        return None if error is None else Refusal(error, route)

    def stands_in_line(self, method: bytes, target: bytes, turn: Callable[[], None]) -> bool:
        """Tell whether a request has to wait, and call `turn` when it need no more."""
        return (
            self._readiness.engine is not None
            and _searched(method, target) is not None
            and self._readiness.engine.admission.stand_in_line(turn)
        )

    def leaves_line(self, turn: Callable[[], None]) -> None:
        """Forget a request that waits."""
        if self._readiness.engine is not None:
            self._readiness.engine.admission.leave_line(turn)

    def is_leaving(self) -> bool:
        """Tell whether each answer is the last on its connection."""
        return self._readiness.phase is Phase.STOPPING


def _searched(method: bytes, target: bytes) -> str | None:
    return searched(method, target.partition(b"?")[0])
