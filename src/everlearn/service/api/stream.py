"""Frames one after the other over a WebSocket: ``/v1/ask/stream``.

    client  a binary message: an image          or a text message: the JSON of ``ask``
    service a text message for each, in order: the JSON that ``ask`` answers, or an error

A client that sends faster than it is answered is read no faster than that.
"""

import asyncio

from fastapi import WebSocket, WebSocketDisconnect
from pydantic import ValidationError

from everlearn.errors import EverlearnError
from everlearn.service.api.addresses import new_router
from everlearn.service.api.failures import body_of
from everlearn.service.api.models import AskRequest
from everlearn.service.api.routes import answered
from everlearn.service.served import Served, Service

# What RFC 6455 calls "try again later", "policy violation" and "going away".
BUSY, REFUSED, SILENT = 1013, 1008, 1001

router = new_router()


@router.websocket("/ask/stream")
async def stream(socket: WebSocket, memory: str | None = None) -> None:
    """Answer every frame until the client goes."""
    service: Service = socket.app.state.service
    try:
        served = service.find(memory)
    except EverlearnError as error:
        await socket.accept()
        await socket.close(REFUSED, str(error)[:100])
        return
    await socket.accept()
    if service.streams >= service.settings.listeners:
        await socket.close(BUSY, f"{service.streams} streams are open already; close one")
        return
    service.streams += 1
    try:
        await _answer_frames(socket, served, service.settings.stream_seconds)
    except TimeoutError:
        await socket.close(SILENT, "nothing was sent, or the answer was not read, for too long")
    except WebSocketDisconnect:
        pass
    finally:
        service.streams -= 1


async def _answer_frames(socket: WebSocket, served: Served, seconds: float) -> None:
    while True:
        async with asyncio.timeout(seconds):
            message = await socket.receive()
        if message["type"] == "websocket.disconnect":
            return
        try:
            frame = message.get("bytes")
            if frame is not None:
                sent = AskRequest.model_validate({"image": frame})
            else:
                sent = AskRequest.model_validate_json(message.get("text") or "")
            answer = (await answered(served, sent)).model_dump_json()
        except ValidationError as error:
            answer = body_of("InvalidInput", str(error.errors()[0]["msg"])).decode()
        except EverlearnError as error:
            answer = body_of(type(error).__name__, str(error)).decode()
        async with asyncio.timeout(seconds):
            await socket.send_text(answer)
