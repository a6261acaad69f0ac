"""OpenTelemetry traces of requests, enabled by its environment variables.

    OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318 everlearn serve

One span per request with method, route pattern and status; a caller's trace is continued. The
address itself is never recorded, because it may contain the token.
"""

import os
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from everlearn.errors import MissingPackage

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


def traced(app: ASGIApp) -> ASGIApp:
    """The application with tracing, if the environment enables it."""
    if not os.environ.get(ENDPOINT):
        return app
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ModuleNotFoundError as error:
        raise MissingPackage(
            f"{ENDPOINT} is set, but traces need {error.name}; install it with: "
            "pip install 'everlearn[otel]'"
        ) from None
    name = os.environ.get("OTEL_SERVICE_NAME", "everlearn")
    provider = TracerProvider(resource=Resource.create({SERVICE_NAME: name}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return Traced(app, provider)


class Traced:
    """An application with a span around every request.

    Parameters
    ----------
    app : ASGI application
    provider : opentelemetry.trace.TracerProvider
    """

    def __init__(self, app: ASGIApp, provider: Any) -> None:
        self._app = app
        self._tracer = provider.get_tracer("everlearn.service")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        from opentelemetry.propagate import extract
        from opentelemetry.trace import SpanKind

        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        with self._tracer.start_as_current_span(
            scope["method"], context=extract(headers), kind=SpanKind.SERVER
        ) as span:

            async def noted(message: Message) -> None:
                if message["type"] == "http.response.start":
                    span.set_attribute("http.response.status_code", int(message["status"]))
                await send(message)

            try:
                await self._app(scope, receive, noted)
            finally:
                route = getattr(scope.get("route"), "path", "other")
                span.update_name(f"{scope['method']} {route}")
                span.set_attribute("http.request.method", scope["method"])
                span.set_attribute("http.route", route)
