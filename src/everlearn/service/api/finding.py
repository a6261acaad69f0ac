"""Finds things in a picture, and follows them over the frames of a stream.

    POST /v1/find             one picture: its things, each with a box and answers
    WebSocket /v1/find/stream successive frames: tracks, each named from all of its frames

    client  a binary message: an image
    service a text message for each, in order: {"things": […], "events": […]}, or an error

A stream has tracks of its own; they end with it. When the name of a track is settled or changes,
listeners get an event (``track``). With ``remember`` in the query, what is settled as unknown is
kept; ``/v1/strangers`` lists it.
"""

import time
from functools import partial
from typing import Annotated, Any

from fastapi import Request, WebSocket
from pydantic import AliasPath, BaseModel, BeforeValidator, Field

from everlearn.errors import InvalidInput
from everlearn.images.decode import decode
from everlearn.memory.finding import Thing
from everlearn.memory.following import FollowedFrame, Following
from everlearn.memory.memory import Memory
from everlearn.regions.boxes import MOST_BOXES
from everlearn.regions.proposals import FEW, MOST
from everlearn.service.api.addresses import Chosen, documented_body, new_router
from everlearn.service.api.bodies import read_body
from everlearn.service.api.models import Image, OneAnswer, RecordModel, RequestModel
from everlearn.service.api.stream import Answer, answer_frames
from everlearn.service.served import Served

router = new_router()


class FindRequest(RequestModel):
    image: Image
    top: Annotated[int, Field(ge=1, le=10_000)] | None = 5
    most: Annotated[int, Field(ge=1, le=MOST_BOXES)] = MOST
    everything: bool = False
    remember: bool = Field(False, description="Keep unknown things, with their boxes.")


class OneThing(RecordModel):
    box: list[float] = Field(description="Left, top, right, bottom, as shares of the picture.")
    name: str | None = Field(description="The best name; null for unknown.")
    score: float = Field(description="Confidence; comparable within one Memory.")
    unknown: bool = Field(validation_alias=AliasPath("answers", "unknown"))
    ignored: bool = Field(validation_alias=AliasPath("answers", "ignored"))
    answers: Annotated[list[OneAnswer], BeforeValidator(list)] = Field(description="Best first.")


class Found(BaseModel):
    things: list[OneThing] = Field(description="Most confident first.")


@router.post("/find", openapi_extra=documented_body(FindRequest, bare=True))
async def find(request: Request, served: Chosen) -> Found:
    """Find the things in a picture and where they are."""
    sent = await read_body(request, FindRequest)

    def look(memory: Memory) -> list[Thing]:
        return memory.find(
            sent.image,
            top=sent.top,
            most=sent.most,
            everything=sent.everything,
            remember=sent.remember,
        )

    found = await (served.change(look) if sent.remember else served.question(look))
    return Found(things=[OneThing.model_validate(thing) for thing in found])


@router.websocket("/find/stream")
async def stream(socket: WebSocket, memory: str | None = None, remember: bool = False) -> None:
    """Follow things over frames until the client disconnects."""
    await answer_frames(socket, memory, partial(_followed_by, remember=remember))


def _followed_by(served: Served, *, remember: bool) -> Answer:
    following = served.memory.following(most=FEW)
    start = time.monotonic()

    async def answer(message: dict[str, Any]) -> BaseModel:
        frame = message.get("bytes")
        if frame is None:
            raise InvalidInput("a frame must be a binary message that holds an image")
        at = time.monotonic() - start
        seen = await served.question(partial(_followed, following, frame, at))
        for event in seen.events:
            facts = {"track": event.track, "name": event.name, "before": event.before}
            served.publish("track", **facts, box=list(event.box))
        views = seen.unknown_views
        if remember and views:
            await served.change(lambda kept: kept.keep_unknowns(views))
        return FollowedTracks.model_validate(seen)

    return answer


def _followed(following: Following, frame: bytes, seconds: float, _: Memory) -> FollowedFrame:
    return following.frame(decode(frame), seconds, "camera")


class OneTrack(RecordModel):
    track: int = Field(validation_alias="id")
    box: list[float]
    name: str | None
    probability: float
    settled: bool


class OneTrackEvent(RecordModel):
    track: int
    name: str | None
    before: str | None
    first: bool


class FollowedTracks(RecordModel):
    things: list[OneTrack]
    events: list[OneTrackEvent]
