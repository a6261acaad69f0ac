"""Answers frames sent over a WebSocket: ``/v1/ask/stream``.

    client  a binary message: an image          or a text message: the JSON of ``ask``
    service a text message for each, in order: the JSON that ``ask`` answers, or an error

A stream is a session: ``steady`` combines its latest frames. If a client sends frames faster than
they are answered, the service reads them as fast as it answers.
"""

import asyncio
import contextlib
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import WebSocket, WebSocketDisconnect
from pydantic import BaseModel, ValidationError

from everlearn.errors import EverlearnError
from everlearn.service.api.addresses import new_router
from everlearn.service.api.failures import body_of, status_of, validation_message
from everlearn.service.api.models import AskRequest
from everlearn.service.api.routes import answer_question
from everlearn.service.served import Served, Service

# RFC 6455: "try again later", "policy violation" and "going away".
BUSY, REFUSED, SILENT = 1013, 1008, 1001
# Time limit for telling a silent client that its stream is closed.
CLOSING_SECONDS = 1.0

router = new_router()

# Computes the answer to a message.
Answer = Callable[[dict[str, Any]], Awaitable[BaseModel]]


@router.websocket("/ask/stream")
async def stream(socket: WebSocket, memory: str | None = None) -> None:
    """Answer every frame until the client disconnects."""
    await answer_frames(socket, memory, _session_of_frames)


def _session_of_frames(served: Served) -> Answer:
    session = uuid.uuid4().hex

    async def answer(message: dict[str, Any]) -> BaseModel:
        frame = message.get("bytes")
        if frame is not None:
            sent = AskRequest.model_validate({"image": frame})
        else:
            sent = AskRequest.model_validate_json(message.get("text") or "")
        sent.session = sent.session or session
        return await answer_question(served, sent)

    return answer


async def answer_frames(
    socket: WebSocket, memory: str | None, begin: Callable[[Served], Answer]
) -> None:
    """Answer every message until the client disconnects; errors are sent as answers.

    Parameters
    ----------
    socket : WebSocket
    memory : str or None
        Which Memory is asked; defaults to the first one.
    begin : callable
        Creates the function that answers the messages of this socket.
    """
    service: Service = socket.app.state.service
    await socket.accept()
    try:
        served = service.find(memory)
    except EverlearnError as error:
        await socket.close(REFUSED, str(error)[:100])
        return
    if service.streams >= service.settings.listeners:
        await socket.close(BUSY, f"{service.streams} streams are open already; close one")
        return
    service.streams += 1
    try:
        await _answer_until_disconnect(socket, begin(served), service)
    except TimeoutError:
        # A client that reads nothing does not take this message either: it is not waited for.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSING_SECONDS):
                await socket.close(SILENT, "the client sent nothing, or read no answer, too long")
    except WebSocketDisconnect:
        pass
    finally:
        service.streams -= 1


async def _answer_until_disconnect(socket: WebSocket, answer: Answer, service: Service) -> None:
    seconds = service.settings.stream_seconds
    route = getattr(socket.scope.get("route"), "path", "other")
    while True:
        async with asyncio.timeout(seconds):
            message = await socket.receive()
        if message["type"] == "websocket.disconnect":
            return
        began, status = time.monotonic(), 200
        try:
            said = (await answer(dict(message))).model_dump_json()
        except ValidationError as error:
            status = 422
            said = body_of("InvalidInput", validation_message(error)).decode()
        except EverlearnError as error:
            status = status_of(error)
            said = body_of(type(error).__name__, str(error)).decode()
        service.metrics.count(route, status, time.monotonic() - began)
        async with asyncio.timeout(seconds):
            await socket.send_text(said)
