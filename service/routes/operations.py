"""Health, readiness, metrics and version endpoints."""

from __future__ import annotations

from contextlib import suppress

from fastapi import APIRouter
from starlette.responses import Response

from hasse.service.core import about
from hasse.service.errors import ServiceError
from hasse.service.http.openapi import problems
from hasse.service.http.services import ServicesHere
from hasse.service.schemas import Alive, Ready, Version
from hasse.service.telemetry.metrics import MEDIA_TYPE

router = APIRouter(tags=["operations"])

_NO_STORE = {"Cache-Control": "no-store"}


@router.get(
    "/livez",
    summary="Is the process alive?",
    response_model=Alive,
    responses={200: {"description": "The process is alive"}, **problems()},
)
async def livez() -> Response:
    """Answer at once, also while the model is being loaded."""
    return _json(Alive(status="alive"))


@router.get(
    "/readyz",
    summary="Are searches answered?",
    response_model=Ready,
    responses={200: {"description": "Searches are answered"}, **problems("not_ready")},
)
async def readyz(services: ServicesHere) -> Response:
    """Probe both encoders and the index. The result is reused for `ready_seconds`."""
    return _json(await services.readiness.probe())


@router.get(
    "/metrics",
    summary="Measure the service",
    response_class=Response,
    responses={
        200: {
            "description": "Prometheus' text format",
            "content": {"text/plain": {"schema": {"type": "string"}}},
        },
        **problems(),
    },
)
async def metrics(services: ServicesHere) -> Response:
    """Return counters, gauges and histograms for Prometheus, after the probe of `/readyz`."""
    with suppress(ServiceError):  # `hasse_ready` shows a failure
        await services.readiness.probe()
    return Response(services.metrics.text(), headers=_NO_STORE | {"Content-Type": MEDIA_TYPE})


@router.get(
    "/version",
    summary="What is running?",
    response_model=Version,
    responses={200: {"description": "Release, model and collection"}, **problems()},
)
async def version(services: ServicesHere) -> Response:
    """Return the release, the model and the collection."""
    return _json(about.version(services.readiness.engine))


def _json(answer: Alive | Ready | Version) -> Response:
    return Response(answer.model_dump_json(), 200, _NO_STORE, "application/json")
