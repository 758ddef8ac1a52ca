"""Builds the FastAPI application: routes, middleware and lifespan.

The model loads after the port is open.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

from hasse.service.core.admission import Admission
from hasse.service.core.engine import Engine
from hasse.service.core.follower_state import FollowerState
from hasse.service.core.readiness import Readiness
from hasse.service.http import openapi, problems
from hasse.service.http.access import Access
from hasse.service.http.bodies import Bodies
from hasse.service.http.hosts import Hosts
from hasse.service.http.lifespan import Lifecycle, Open
from hasse.service.http.middleware import RequestMiddleware
from hasse.service.http.services import Services, requires
from hasse.service.page import add_image, combine, narrow, picture_actions
from hasse.service.page import lattice as lattice_pages
from hasse.service.page import search as search_pages
from hasse.service.page import searches as saved_search_pages
from hasse.service.page.errors import unknown_address
from hasse.service.page.static_files import StaticFiles
from hasse.service.questions.sample import Samples
from hasse.service.routes import agents, collection, docs, exporting, operations, searches, writing
from hasse.service.routes.questions import question_routes
from hasse.service.settings import Settings, origins_of
from hasse.service.telemetry.logs import LOGGER
from hasse.service.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from hasse.service.telemetry.traces import Traces

# Requests that `service.http.connection` may refuse before their body is read.
SEARCH_ROUTES = question_routes()
DESCRIPTION = (
    "Search images by what is true of them: which images is this caption true of, and which "
    "captions are true of this image? A hit's violation is 0 when the caption holds."
)


def create_app(
    settings: Settings,
    open_engine: Open = Engine.open,
    on_failure: Callable[[str], None] = LOGGER.error,
    traces: Traces | None = None,
) -> FastAPI:
    """Make the application. Its lifespan opens the engine in a thread.

    Args:
        settings: all limits and paths.
        open_engine: opens the engine.
        on_failure: called with one sentence when the engine cannot open or a worker dies.
        traces: records traces of requests; None traces nothing.
    """
    services = Services(
        settings=settings,
        admission=Admission.of(settings),
        rendering=Admission.one_by_one(settings),
        metrics=Metrics(),
        readiness=Readiness(settings),
        hosts=Hosts(settings),
        access=Access(settings),
        bodies=Bodies(settings),
        samples=Samples(),
        traces=traces,
    )
    services.metrics.watch("hasse_body_bytes", lambda: services.bodies.held_bytes)
    services.metrics.watch("hasse_ready", lambda: float(services.readiness.is_ready))
    services.metrics.watch("hasse_following", lambda: float(_follower().runs))
    services.metrics.watch("hasse_follower_restarts", lambda: _follower().restarts)
    app = FastAPI(
        title="Hasse",
        description=DESCRIPTION,
        version=version("hasse-search"),
        lifespan=Lifecycle(services, open_engine, on_failure).run,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
    )
    app.state.services = services
    problems.install(app)
    app.add_exception_handler(404, unknown_address)
    # Added to the application itself, because routes of an included router are matched twice.
    app.router.routes.extend(SEARCH_ROUTES)
    app.include_router(collection.router, dependencies=[requires("read")])
    app.include_router(writing.router, dependencies=[requires("write")])
    app.include_router(exporting.router)
    app.include_router(searches.router)
    app.include_router(operations.router)
    app.include_router(docs.router)
    if find_spec("mcp") is not None:
        app.include_router(agents.router)
    pages = (
        search_pages,
        saved_search_pages,
        lattice_pages,
        combine,
        add_image,
        picture_actions,
        narrow,
    )
    for page in pages:
        app.include_router(page.router, include_in_schema=False, dependencies=[requires("search")])
    app.mount("/static", StaticFiles(), name="static")
    app.mount("/docs", StaticFiles(docs.SWAGGER_UI), name="swagger-ui")
    app.add_middleware(RequestMiddleware, services=services)
    if settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=origins_of(settings.cors_origins),
            allow_methods=["GET", "POST", "PUT", "DELETE"],
            allow_headers=[
                *("Authorization", "Content-Type", "X-API-Key", "X-Request-Id"),
                *("traceparent", "tracestate"),
            ],
            expose_headers=["ETag", "Location", "Retry-After", "Server-Timing", "X-Request-Id"],
        )
    openapi.describe(app)
    return app


def _follower() -> FollowerState:
    return FollowerState.read() or FollowerState(runs=True, restarts=0)
