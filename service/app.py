"""The application: routes, the edge around them, and a start that never keeps anyone waiting."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version

from fastapi import FastAPI

from service import errors
from service.core.engine import Engine
from service.direct import Direct
from service.http import openapi
from service.http.access import Access
from service.http.bodies import Bodies
from service.http.middleware import Edge, Record
from service.page.adding import router as adding
from service.page.combine import router as together
from service.page.files import Files
from service.page.order import router as order
from service.page.search import router as page
from service.reception import Reception
from service.routes import collection, docs, lattice, operations, search, writing
from service.routes.context import MAY_READ, MAY_SEARCH, MAY_WRITE
from service.runtime.logs import LOGGER
from service.runtime.metrics import Metrics
from service.runtime.readiness import Readiness
from service.runtime.startup import Lifecycle, Open
from service.settings import Settings

DESCRIPTION = (
    "Search images by what is true of them: which images is this caption true of, and which "
    "captions are true of this image? A hit's violation is 0 when the caption holds."
)


def create_app(
    settings: Settings,
    open_engine: Open = Engine.open,
    on_failure: Callable[[str], None] = LOGGER.error,
) -> FastAPI:
    """Make the application; its engine is opened in a thread once it runs.

    Args:
        settings: all limits and places.
        open_engine: makes the engine; tests give one that fails.
        on_failure: told one sentence when the engine cannot be opened or a worker dies.
    """
    metrics = Metrics()
    readiness = Readiness(settings)
    bodies = Bodies(settings)
    metrics.watch("hasse_body_bytes", lambda: bodies.held)
    metrics.watch("hasse_ready", lambda: float(readiness.is_ready))

    reception = Reception(readiness)
    record = Record(metrics)
    app = FastAPI(
        title="Hasse",
        description=DESCRIPTION,
        version=version("hasse"),
        lifespan=Lifecycle(settings, metrics, readiness, open_engine, on_failure).run,
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
        redirect_slashes=False,
    )
    app.state.settings = settings
    app.state.access = Access(settings)
    app.state.engine = None
    app.state.readiness = readiness
    app.state.metrics = metrics
    app.state.bodies = bodies
    app.state.record = record
    app.state.reception = reception
    errors.install(app)
    # As the application's own: a router that is included looks for its routes twice.
    app.router.routes.extend(search.router.routes + lattice.router.routes)
    app.include_router(collection.router, dependencies=[MAY_READ])
    app.include_router(writing.router, dependencies=[MAY_WRITE])
    app.include_router(operations.router)
    app.include_router(docs.router)
    for pages in (page, order, together, adding):
        app.include_router(pages, include_in_schema=False, dependencies=[MAY_SEARCH])
    app.mount("/static", Files(), name="static")
    app.mount("/docs", Files(docs.SWAGGER_UI), name="swagger-ui")
    app.add_middleware(Direct, routes=app.router.routes, handlers=app.exception_handlers)
    app.add_middleware(
        Edge,
        record=record,
        bodies=bodies,
        stopping=reception.is_stopping,
    )
    openapi.describe(app)
    return app
