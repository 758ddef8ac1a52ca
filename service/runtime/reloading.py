"""Takes settings and the model's calibration again while the service runs, at SIGHUP."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from hasse.models.checkpoints.checkpoint import recalibrated
from hasse.models.errors import HasseError
from hasse.service.runtime import logs
from hasse.service.services import Services
from hasse.service.settings import RELOADED, Settings

Reread: TypeAlias = Callable[[], Settings]  # reads settings again; HasseError where one is wrong


class Reloading:
    """Gives new settings to all parts of one application, all or none.

    Args:
        services: those of the application.
        reread: reads the settings again.
    """

    def __init__(self, services: Services, reread: Reread) -> None:
        self._services, self._reread = services, reread

    def reload(self) -> None:
        """Take what has changed, and log it in one line; keep everything if anything is wrong."""
        services = self._services
        settings, engine = services.settings, services.readiness.engine
        try:
            found = self._reread()
            checkpoint = None if engine is None else recalibrated(engine.checkpoint)
        except HasseError as error:
            logs.event("not reloaded", logging.ERROR, reason=str(error))
            return
        changed, others = changes(settings, found)
        settings.adopt(found)
        services.access.take(settings)
        limits = settings.queued, settings.deadline_seconds
        services.admission.resize(*limits, settings.in_flight)
        services.rendering.resize(*limits)
        if engine is not None and checkpoint is not None:
            engine.writing.admission.resize(0, settings.write_seconds, settings.writes_in_flight)
            if engine.checkpoint.calibration != checkpoint.calibration:
                engine.recalibrate(checkpoint)
                changed.append("calibration")
        restart: dict[str, Any] = {"after_restart": ", ".join(others)} if others else {}
        logs.set_level("info")  # whoever reloads wants to see the line, whatever the level
        logs.event("reloaded", changed=", ".join(changed) or "nothing", **restart)
        logs.set_level(settings.log_level)


def changes(before: Settings, after: Settings) -> tuple[list[str], list[str]]:
    """Return what changed of `RELOADED`, in words, and the names of other settings that did."""
    changed = []
    for name in RELOADED:
        old, new = getattr(before, name), getattr(after, name)
        if old != new and "keys" not in name:
            changed.append(f"{name} {old} -> {new}")
    for kind in ("readers", "writers"):
        changed += _keys(kind, getattr(before, kind), getattr(after, kind))
    others = [
        name
        for name in Settings.model_fields
        if name not in RELOADED and getattr(before, name) != getattr(after, name)
    ]
    return changed, others


def _keys(kind: str, before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    gone = [f"-{name}" for name in before if after.get(name) != before[name]]
    new = [f"+{name}" for name in after if before.get(name) != after[name]]
    return [f"{kind} {' '.join([*new, *gone])}"] if gone or new else []
