"""Shared by all routes: the Memory of a request, the key of a change, and documentation."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel

from everlearn.service.api.bodies import idempotency
from everlearn.service.api.failures import MEANINGS
from everlearn.service.api.models import Failure
from everlearn.service.served import Served, Service
from everlearn.service.writer import Key


def new_router() -> APIRouter:
    """A router under ``/v1`` that documents every possible status."""
    return APIRouter(
        prefix="/v1",
        responses={
            status: {"model": Failure, "description": meaning}
            for status, meaning in MEANINGS.items()
        },
    )


def service_of(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


async def served_of(
    request: Request,
    memory: Annotated[
        str | None, Query(max_length=100, description="Which Memory; defaults to the first.")
    ] = None,
) -> Served:
    # A coroutine, because FastAPI would run a function in a thread, which costs more.
    return service_of(request).find(memory)


Chosen = Annotated[Served, Depends(served_of)]
ChangeKey = Annotated[Key | None, Depends(idempotency)]


def documented_body(model: type[BaseModel], *, bare: bool = False) -> dict[str, Any]:
    """For the documentation: the bodies that :func:`read_body` accepts."""
    schema = model.model_json_schema()
    content: dict[str, Any] = {"application/json": {"schema": schema}}
    if "image" in model.model_fields:
        fields = dict(schema["properties"]) | {"image": {"type": "string", "format": "binary"}}
        content["multipart/form-data"] = {"schema": schema | {"properties": fields}}
    if bare:
        content["image/*"] = {"schema": {"type": "string", "format": "binary"}}
    return {"requestBody": {"required": True, "content": content}}
