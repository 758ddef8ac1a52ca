"""The application: routes, the edge around them, and a start that never keeps anyone waiting."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from importlib.metadata import version
from pathlib import Path

from fastapi import FastAPI
from starlette.staticfiles import StaticFiles

from index.errors import HasseIndexError
from models.checkpoint import CheckpointError
from service import errors, introduction, openapi
from service.bodies import Bodies
from service.device import DeviceError
from service.edge import Edge
from service.engine import Engine
from service.logs import event
from service.metrics import Metrics
from service.page.router import router as page
from service.readiness import Phase, Readiness
from service.routes import collection, operations, reference, search
from service.settings import Settings

STATIC = Path(__file__).parent / "page" / "static"
DESCRIPTION = (
    "Search images by what is true of them: which images is this caption true of, and which "
    "captions are true of this image? A hit's violation is 0 when the caption holds."
)

Open = Callable[[Settings, Metrics, Callable[[], None]], Engine]


def create_app(
    settings: Settings,
    open_engine: Open = Engine.open,
    on_failure: Callable[[str], None] = lambda sentence: None,
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
    metrics.watch("hasse_ready", lambda: float(readiness.phase is Phase.SERVING))

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()

        def on_death() -> None:
            loop.call_soon_threadsafe(on_failure, "a worker ended unexpectedly; see the log")

        async def start() -> None:
            try:
                engine = await asyncio.to_thread(open_engine, settings, metrics, on_death)
            except (HasseIndexError, CheckpointError, DeviceError) as error:
                fail(str(error))
            except Exception as error:
                logging.getLogger("hasse").exception("could not start")
                fail(f"the service could not start ({type(error).__name__}); see the log")
            else:
                readiness.engine = app.state.engine = engine
                if readiness.phase is not Phase.STARTING:
                    return  # asked to stop while loading: there is nothing to keep fresh
                readiness.phase = Phase.SERVING
                event("serving", **introduction.facts(engine))
                await engine.keep_fresh()

        def fail(sentence: str) -> None:
            readiness.phase = Phase.FAILED
            event(sentence, logging.ERROR)
            on_failure(sentence)

        starting = asyncio.create_task(start())
        yield
        readiness.phase = Phase.STOPPING
        if readiness.engine is not None:
            starting.cancel()
        with suppress(asyncio.CancelledError):
            await starting
        if readiness.engine is not None:
            await asyncio.to_thread(readiness.engine.close)

    app = FastAPI(
        title="Hasse",
        description=DESCRIPTION,
        version=version("hasse"),
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
        redirect_slashes=False,
    )
    app.state.settings = settings
    app.state.engine = None
    app.state.readiness = readiness
    app.state.metrics = metrics
    app.state.bodies = bodies
    errors.install(app)
    for router in (search.router, collection.router, operations.router, reference.router):
        app.include_router(router)
    app.include_router(page, include_in_schema=False)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    app.add_middleware(Edge, metrics=metrics, bodies=bodies)
    openapi.describe(app)
    return app
