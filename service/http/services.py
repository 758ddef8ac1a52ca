"""The services that all requests share, as one typed value and one dependency."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Depends, FastAPI, Request

from hasse.service.core.admission import Admission
from hasse.service.core.readiness import Readiness
from hasse.service.http.access import Access, Purpose
from hasse.service.http.bodies import Bodies
from hasse.service.http.hosts import Hosts
from hasse.service.questions.sample import Samples
from hasse.service.settings import Settings
from hasse.service.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from hasse.service.core.engine import Engine
    from hasse.service.telemetry.traces import Traces


@dataclass(frozen=True, slots=True)
class Services:
    """The services of one application. The engine is in `readiness`, because it opens later.

    `admission` admits searches, `rendering` pages that show them. Without `traces` no request is
    traced.
    """

    settings: Settings
    admission: Admission
    rendering: Admission
    metrics: Metrics
    readiness: Readiness
    hosts: Hosts
    access: Access
    bodies: Bodies
    samples: Samples
    traces: Traces | None = None

    @property
    def engine(self) -> Engine:
        """The engine.

        Raises:
            ServiceError: `not_ready` while there is none.
        """
        return self.readiness.engine or self.readiness.require_engine()


def services_of(app: FastAPI) -> Services:
    """Return the services of an application."""
    services: Services = app.state.services
    return services


async def _services(request: Request) -> Services:
    return services_of(request.app)


ServicesHere = Annotated[Services, Depends(_services)]


def requires(purpose: Purpose) -> Any:
    """Return a dependency of `Services` that refuses requests without a key for a purpose."""

    async def admit(request: Request) -> Services:
        services = services_of(request.app)
        if purpose == "write":
            services.hosts.require_same_origin(request.headers)
        if purpose == "write" or not services.access.is_open:
            name = services.access.admit(request.headers, purpose)
            if name:
                request.scope["hasse.key"] = name
        return services

    return Depends(admit)


# One dependency for searches, because each costs a twentieth of a search.
SearchServices = Annotated[Services, requires("search")]
