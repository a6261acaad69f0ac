"""Traces: one span per request, a caller's trace goes on, and no address is recorded."""

import pytest
from starlette.testclient import TestClient

from everlearn.service import Settings, create_app
from everlearn.service.tracing import ENDPOINT, Traced, traced
from tests.service.conftest import ADDRESS, TOKEN


def test_without_an_endpoint_nothing_is_traced(monkeypatch):
    monkeypatch.delenv(ENDPOINT, raising=False)

    async def app(scope, receive, send):
        pass

    assert traced(app) is app


def test_requests_become_spans_without_their_address(memories):
    pytest.importorskip("opentelemetry.sdk", reason="OpenTelemetry is not installed")
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    app, _ = create_app(memories, Settings(token=TOKEN))
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    with TestClient(Traced(app, provider), base_url=ADDRESS) as client:
        client.get(f"/?token={TOKEN}", follow_redirects=False)
        authorized = {"authorization": f"Bearer {TOKEN}"}
        client.get("/v1/names", headers=authorized | {"traceparent": parent})
        client.get("/v1/thumbnails/7", headers=authorized)
    spans = exporter.get_finished_spans()
    named = [(span.name, span.attributes["http.response.status_code"]) for span in spans]
    assert named == [
        ("GET other", 303),
        ("GET /v1/names", 200),
        ("GET /v1/thumbnails/{id}", 404),
    ]
    assert f"{spans[1].context.trace_id:032x}" == parent.split("-")[1]
    assert all(TOKEN not in span.to_json() for span in spans)
