"""Reads request bodies, with limits on size and time, and the examples in them.

A body is read completely before it is processed, and only from authorised clients. All bodies
together may use a limited amount of memory.
"""

import asyncio
import hashlib
from typing import Annotated, Any, TypeVar

from fastapi import Header, HTTPException, Request
from pydantic import BaseModel
from starlette.datastructures import Headers, UploadFile
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from everlearn.errors import InvalidInput
from everlearn.service.api.failures import Refused
from everlearn.service.held_bytes import HeldBytes
from everlearn.service.settings import Settings
from everlearn.service.writer import Key

Body = TypeVar("Body", bound=BaseModel)

MOST_FIELDS = 16
BARE_IMAGES = ("image/", "application/octet-stream")


class Bodies:
    """Reads bodies before the application sees them.

    Parameters
    ----------
    app : ASGI application
    settings : Settings
    held : HeldBytes
    """

    def __init__(self, app: ASGIApp, settings: Settings, held: HeldBytes) -> None:
        self._app = app
        self._settings = settings
        self._held = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD"):
            await self._app(scope, receive, send)
            return
        parts: list[bytes] = []
        try:
            whole = await self._read(scope, receive, parts)
            if whole:
                await self._app(scope, _receive_again(b"".join(parts), receive), send)
        finally:
            self._held.take(-sum(map(len, parts)))

    async def _read(self, scope: Scope, receive: Receive, parts: list[bytes]) -> bool:
        """Read a body; returns whether it was complete, or the client has disconnected."""
        most = self._settings.body_bytes
        declared = Headers(scope=scope).get("content-length", "0")
        if not declared.isdecimal() or int(declared[:20]) > most:
            raise _too_large(most)
        size = 0
        try:
            async with asyncio.timeout(self._settings.body_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return False
                    part = message.get("body", b"")
                    size += len(part)
                    if size > most:
                        raise _too_large(most)
                    if not self._held.take(len(part)):
                        raise Refused(
                            503, "TooBusy", "too many requests are being read; wait a second"
                        )
                    parts.append(part)
                    if not message.get("more_body", False):
                        return True
        except TimeoutError:
            raise Refused(
                408,
                "TooSlow",
                f"the body did not arrive within {self._settings.body_seconds:g} s; send a smaller "
                "one, or over a faster connection",
            ) from None


async def read_body(request: Request, model: type[Body]) -> Body:
    """The validated content of a request: JSON, a form with a file, or (bare) an image."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json":
        return model.model_validate_json(await request.body())
    if kind == "multipart/form-data":
        return model.model_validate(await _form(request))
    if kind.startswith(BARE_IMAGES) and "image" in model.model_fields:
        said: dict[str, Any] = dict(request.query_params)
        said.pop("memory", None)
        return model.model_validate(said | {"image": await request.body()})
    raise HTTPException(415, "send application/json, multipart/form-data or the bytes of an image")


async def _form(request: Request) -> dict[str, Any]:
    async with request.form(max_files=1, max_fields=MOST_FIELDS) as form:
        found: dict[str, Any] = {}
        for name, value in form.multi_items():
            if name in found:
                raise InvalidInput("a field of the form occurs twice; send each once")
            found[name] = await value.read() if isinstance(value, UploadFile) else value
    return found


async def idempotency(
    request: Request,
    idempotency_key: Annotated[
        str | None,
        Header(
            max_length=200,
            description="A key chosen by the client for this change. If the same request is sent "
            "again with the same key, the change is not made twice and the first answer is "
            "returned, as long as the service runs and the key is among the latest 10,000.",
        ),
    ] = None,
) -> Key | None:
    """The key of a change, tied to the content of its request."""
    if idempotency_key is None:
        return None
    digest = hashlib.sha256()
    for part in (request.url.path, request.url.query, request.headers.get("content-type", "")):
        digest.update(part.encode("utf-8", "replace") + b"\0")
    digest.update(await request.body())
    return Key(idempotency_key, digest.digest())


def _receive_again(body: bytes, receive: Receive) -> Receive:
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _too_large(most: int) -> Refused:
    return Refused(
        413, "TooLarge", f"a request may have at most {most} bytes; send a smaller image"
    )
