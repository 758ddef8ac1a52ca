"""Describes a running service: in the log, on the terminal and at /version."""

from __future__ import annotations

from importlib.metadata import version as installed_version
from typing import Any

from hasse.service.core.engine import Engine
from hasse.service.plural import count
from hasse.service.schemas import Version


def serving_facts(engine: Engine) -> dict[str, Any]:
    """Return the fields of the log line `serving`."""
    info = engine.info
    return {
        "model": engine.checkpoint.name,
        "device": str(engine.checkpoint.model.device),
        "images": info.images,
        "captions": info.captions,
        "generation": info.generation,
    }


def startup_message(engine: Engine, url: str) -> str:
    """Return the lines that `hasse serve` prints: collection, model, limits and address."""
    info, settings = engine.info, engine.settings
    lines = [
        f"Collection  {count(info.images, 'image')}, {count(info.captions, 'caption')} "
        f"({info.folder})",
        f"Model       {engine.checkpoint.name}: {info.model.score}, "
        f"{info.model.dimension} dimensions, on {engine.checkpoint.model.device}, pictures in "
        f"{str(engine.checkpoint.model.backbone.dtype).removeprefix('torch.')}",
        f"Limits      {settings.in_flight} searches at a time and {settings.queued} waiting, "
        f"{settings.deadline_seconds:g} s each, pictures up to "
        f"{settings.picture_bytes / 1e6:g} MB and {settings.picture_pixels / 1e6:g} megapixels",
    ]
    if settings.processes > 1:
        lines.append(f"Processes   {settings.processes}, each within these limits")
    return "\n".join([*lines, f"Serving     {url} (the API: {url}/docs). Ctrl-C stops."])


def version(engine: Engine | None) -> Version:
    """Return the answer of /version; while loading, fields of the model and index are null."""
    release = installed_version("hasse-search")
    if engine is None:
        return Version(name="hasse", version=release)
    info = engine.info
    return Version(
        name="hasse",
        version=release,
        model=info.model.name,
        fingerprint=info.model.fingerprint,
        score=info.model.score,
        dimension=info.model.dimension,
        images=info.images,
        captions=info.captions,
        generation=info.generation,
    )
