"""Readiness: the phase of the service, and a probe through both encoders and the index."""

from __future__ import annotations

import asyncio
import logging
from enum import Enum
from time import perf_counter
from typing import TYPE_CHECKING, Literal

from hasse.service.core.follower_state import FollowerState
from hasse.service.errors import ServiceError
from hasse.service.schemas import Ready
from hasse.service.settings import Settings
from hasse.service.telemetry.logs import event

if TYPE_CHECKING:
    from hasse.service.core.engine import Engine


class Phase(Enum):
    """Phases of a service. The value is the sentence that clients get."""

    STARTING = "the model and the index are being loaded"
    SERVING = "searches are answered"
    STOPPING = "the service is stopping"
    FAILED = "the service could not start; its log says why"


class Readiness:
    """The phase of the service and the result of the last probe."""

    def __init__(self, settings: Settings) -> None:
        self.phase = Phase.STARTING
        self.engine: Engine | None = None
        self._settings = settings
        self._lock = asyncio.Lock()
        self._checked_at = float("-inf")
        self._failure: str | None = None

    def require_engine(self) -> Engine:
        """Return the engine.

        Raises:
            ServiceError: `not_ready` while there is none.
        """
        if self.engine is None:
            raise self._not_ready(self.phase.value)
        return self.engine

    @property
    def is_ready(self) -> bool:
        """Whether searches are answered, by the last probe."""
        return self.phase is Phase.SERVING and self._failure is None

    async def probe(self) -> Ready:
        """Encode a caption and a picture and search for both, or repeat a recent result.

        Raises:
            ServiceError: `not_ready`, with the stage that failed.
        """
        engine = self.require_engine()
        self._require_serving()
        async with self._lock:
            if perf_counter() - self._checked_at > self._settings.ready_seconds:
                failure_before = self._failure
                self._failure = await engine.probe()
                self._checked_at = perf_counter()
                if self._failure != failure_before:
                    event(
                        "readiness",
                        logging.WARNING if self._failure else logging.INFO,
                        failure=self._failure or "none",
                    )
        self._require_serving()  # the service may have begun to stop
        if self._failure is not None:
            raise self._not_ready(self._failure)
        checks: dict[str, Literal["ok", "comparing", "restarting"]] = {
            "caption_encoder": "ok",
            "picture_encoder": "ok",
            "index": "ok",
            "checksums": "comparing" if engine.checks.bytes_left else "ok",
        }
        if (follower := FollowerState.read()) is not None:  # searches are answered without it
            checks["following"] = "ok" if follower.runs else "restarting"
        return Ready(status="ready", checks=checks)

    def _require_serving(self) -> None:
        if self.phase is not Phase.SERVING:
            raise self._not_ready(self.phase.value)

    def _not_ready(self, detail: str) -> ServiceError:
        return ServiceError("not_ready", detail, retry_after=1)
