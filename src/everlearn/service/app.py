"""The application: routes, page, health and metrics, behind the gate."""

import math
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib.resources import files

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import ValidationError
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.types import ASGIApp

from everlearn import __version__
from everlearn.errors import EverlearnError
from everlearn.memory.memory import Memory
from everlearn.service.api import exchanging, explaining, finding, folders, routes, stream, unknowns
from everlearn.service.api.bodies import Bodies
from everlearn.service.api.failures import (
    body_of,
    headers_of,
    status_of,
    validation_message,
)
from everlearn.service.gate import HEALTH, READY, Gate
from everlearn.service.served import Service
from everlearn.service.settings import Settings

MEDIA_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "webmanifest": "application/manifest+json",
}


def create_app(
    memories: Mapping[str, Memory], settings: Settings | None = None
) -> tuple[ASGIApp, Service]:
    """The ASGI application, and the service inside.

    Parameters
    ----------
    memories : mapping of str to Memory
        Open Memories by the names that clients use; the first is the default. The caller closes
        them, after the service.
    settings : Settings, optional
    """
    settings = settings or Settings()
    service = Service(memories, settings)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        service.close()

    app = FastAPI(
        title="everlearn",
        version=__version__,
        summary="Teach images by example; they are recognised at once.",
        openapi_url="/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.service = service
    for part in (routes, finding, folders, explaining, unknowns, exchanging, stream):
        app.include_router(part.router)
    _answer_failures(app)
    _serve_health(app, service)
    _serve_page(app)
    return Gate(Bodies(app, settings, service.held), settings, service.metrics), service


def _answer_failures(app: FastAPI) -> None:
    """Give all errors the same form."""

    @app.exception_handler(EverlearnError)
    async def ours(_: Request, error: EverlearnError) -> Response:
        return _failure(status_of(error), type(error).__name__, str(error))

    @app.exception_handler(RequestValidationError)
    @app.exception_handler(ValidationError)
    async def invalid(_: Request, error: RequestValidationError | ValidationError) -> Response:
        return _failure(422, "InvalidInput", validation_message(error))

    @app.exception_handler(StarletteHTTPException)
    async def other(_: Request, error: StarletteHTTPException) -> Response:
        return _failure(error.status_code, "InvalidRequest", str(error.detail))

    @app.exception_handler(Exception)
    async def failed(_: Request, error: Exception) -> Response:
        return _failure(500, "ServiceFailed", "the service failed; see its log")


def _serve_health(app: FastAPI, service: Service) -> None:
    @app.get(HEALTH)
    async def healthz() -> dict[str, str]:
        """Whether the service responds; needs no token and reveals nothing else."""
        return {"status": "ok"}

    latest = [-math.inf, False]

    @app.get(READY)
    async def readyz() -> Response:
        """Whether every Memory answers and accepts changes; checked at most once a second."""
        if time.monotonic() - latest[0] > 1.0:
            ready = all([await served.ready() for served in service.served.values()])
            latest[:] = time.monotonic(), ready
        said = {"status": "ready" if latest[1] else "not ready"}
        return JSONResponse(said, 200 if latest[1] else 503)

    @app.get("/metrics", response_class=Response)
    async def metrics() -> Response:
        """Metrics for Prometheus."""
        gauges: list[tuple[str, str, float]] = [
            ("everlearn_listeners", "", service.events.listeners)
        ]
        for follower in service.gauge_sources:
            gauges += follower.gauges()
        for name, served in service.served.items():
            label = f'memory="{name}"'
            info = await served.question(lambda memory: memory.info())
            lag = await served.question(lambda memory: memory.lag_seconds)
            gauges.append(("everlearn_lag_seconds", label, lag))
            gauges.append(("everlearn_names", label, info["names"]))
            gauges.append(("everlearn_teachings", label, info["teachings"]))
            gauges.append(("everlearn_changes_waiting", label, served.writer.waiting))
        return Response(
            service.metrics.text(sorted(gauges)), media_type="text/plain; version=0.0.4"
        )


def _serve_page(app: FastAPI) -> None:
    """Serve the page's files from memory; a client's path is never looked up on disk."""
    folder = files("everlearn.service") / "page"
    pages = {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}

    @app.get("/", include_in_schema=False)
    async def index() -> Response:
        return Response(pages["index.html"], media_type=MEDIA_TYPES["html"])

    @app.get("/api", include_in_schema=False)
    async def description() -> Response:
        return Response(pages["api.html"], media_type=MEDIA_TYPES["html"])

    @app.get("/page/{name}", include_in_schema=False)
    async def part(name: str) -> Response:
        if name not in pages:
            raise HTTPException(404, "there is no such page")
        return Response(pages[name], media_type=MEDIA_TYPES[name.rpartition(".")[2]])


def _failure(status: int, kind: str, message: str) -> Response:
    return Response(body_of(kind, message), status, headers_of(status))
