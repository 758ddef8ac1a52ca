"""Reloads settings and the model's calibration at SIGHUP, while the service runs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from hasse.models.checkpoints.checkpoint import reload_calibration
from hasse.models.errors import HasseError
from hasse.service.http.services import Services
from hasse.service.settings import RELOADED, Settings
from hasse.service.telemetry import logs

Reread: TypeAlias = Callable[[], Settings]  # reads the settings again; HasseError for a wrong one


class Reloading:
    """Gives new settings to all parts of one application, or none if one is wrong.

    Args:
        services: the state of the application.
        reread: reads the settings again.
    """

    def __init__(self, services: Services, reread: Reread) -> None:
        self._services, self._reread = services, reread

    def reload(self) -> None:
        """Apply what has changed, and log it in one line; change nothing if anything is wrong."""
        services = self._services
        settings, engine = services.settings, services.readiness.engine
        try:
            new_settings = self._reread()
            checkpoint = None if engine is None else reload_calibration(engine.checkpoint)
        except HasseError as error:
            logs.event("not reloaded", logging.ERROR, reason=str(error))
            return
        changed, restart_names = changes(settings, new_settings)
        settings.adopt(new_settings)
        services.access.update(settings)
        limits = settings.queued, settings.deadline_seconds
        services.admission.resize(*limits, settings.in_flight)
        services.rendering.resize(*limits)
        if engine is not None and checkpoint is not None:
            engine.writing.admission.resize(0, settings.write_seconds, settings.writes_in_flight)
            if engine.checkpoint.calibration != checkpoint.calibration:
                engine.recalibrate(checkpoint)
                changed.append("calibration")
        restart: dict[str, Any] = {}
        if restart_names:
            restart["after_restart"] = ", ".join(restart_names)
        logs.set_level("info")  # the operator wants to see this line, whatever the level
        logs.event("reloaded", changed=", ".join(changed) or "nothing", **restart)
        logs.set_level(settings.log_level)


def changes(before: Settings, after: Settings) -> tuple[list[str], list[str]]:
    """Return the changes of settings in `RELOADED`, in words, and the names of other changed ones.

    The others change only with a restart.
    """
    changed = []
    for name in RELOADED:
        old, new = getattr(before, name), getattr(after, name)
        if old != new and "keys" not in name:
            changed.append(f"{name} {old} -> {new}")
    for kind in ("readers", "writers"):
        changed += _key_changes(kind, getattr(before, kind), getattr(after, kind))
    restart_names = [
        name
        for name in Settings.model_fields
        if name not in RELOADED and getattr(before, name) != getattr(after, name)
    ]
    return changed, restart_names


def _key_changes(kind: str, before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    removed = [f"-{name}" for name in before if after.get(name) != before[name]]
    added = [f"+{name}" for name in after if before.get(name) != after[name]]
    return [f"{kind} {' '.join([*added, *removed])}"] if removed or added else []
