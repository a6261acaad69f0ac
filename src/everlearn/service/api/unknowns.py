"""Routes for unknown pictures that were kept: list, name, ignore, drop."""

from typing import Annotated

from fastapi import HTTPException, Path, Request, Response
from pydantic import Field

from everlearn.memory.memory import Memory
from everlearn.service.api.addresses import ChangeKey, Chosen, documented_body, new_router
from everlearn.service.api.bodies import read_body
from everlearn.service.api.models import Counted, Name, RecordModel, RequestModel, Strictness

Number = Annotated[int, Field(ge=1, lt=1 << 63)]

router = new_router()


class OneGroup(RecordModel):
    """Similar unknown pictures."""

    id: int = Field(description="Id of its first member.")
    count: int
    examples: list[int] = Field(description="Ids of its members.")
    likely: str | None = Field(description="The known name it resembles most.")
    ignored: bool
    sources: list[str] = Field(
        default=[], description="Where its members came from, in the order of examples."
    )


class NameStrangersRequest(RequestModel):
    group: Number
    name: Name


class GroupRequest(RequestModel):
    group: Number


@router.get("/strictness")
async def strictness(served: Chosen) -> Strictness:
    """How strict *unknown* is."""
    return await served.question(lambda memory: Strictness(accept=memory.accept))


@router.post("/strictness", openapi_extra=documented_body(Strictness))
async def set_strictness(request: Request, served: Chosen, key: ChangeKey) -> Strictness:
    """Store in the Memory how strict *unknown* is; takes effect with the next answer."""
    sent = await read_body(request, Strictness)

    def work(memory: Memory) -> Strictness:
        memory.set_accept(sent.accept)
        return sent

    return await served.change(work, key)


@router.get("/strangers")
async def strangers(served: Chosen) -> list[OneGroup]:
    """Images answered with unknown and kept (``ask`` with ``remember``), by similarity."""
    found = await served.question(lambda memory: memory.unknowns())
    return [OneGroup.model_validate(group) for group in found]


@router.get(
    "/strangers/{id}/thumbnail",
    response_class=Response,
    responses={200: {"content": {"image/jpeg": {}}, "description": "A small JPEG."}},
)
async def thumbnail(id: Annotated[int, Path(ge=1, lt=1 << 63)], served: Chosen) -> Response:
    """A thumbnail of an unknown picture, if one is stored."""
    picture = await served.question(lambda memory: memory.unknown_thumbnail(id))
    if not picture:
        raise HTTPException(404, "no thumbnail of this unknown picture is stored")
    return Response(picture, media_type="image/jpeg")


@router.post("/strangers/name", openapi_extra=documented_body(NameStrangersRequest))
async def name_strangers(request: Request, served: Chosen, key: ChangeKey) -> Counted:
    """Teach a group of unknown pictures as this name."""
    sent = await read_body(request, NameStrangersRequest)

    def work(memory: Memory) -> Counted:
        count = memory.name_unknowns(sent.group, sent.name)
        served.publish("named", name=sent.name, count=count)
        return Counted(count=count)

    return await served.change(work, key)


@router.post("/strangers/ignore", openapi_extra=documented_body(GroupRequest))
async def ignore_strangers(request: Request, served: Chosen, key: ChangeKey) -> Counted:
    """Answer pictures that resemble this group with *ignored* from now on."""
    sent = await read_body(request, GroupRequest)

    def work(memory: Memory) -> Counted:
        count = memory.ignore_unknowns(sent.group)
        served.publish("ignored", count=count)
        return Counted(count=count)

    return await served.change(work, key)


@router.post("/strangers/drop", openapi_extra=documented_body(GroupRequest))
async def drop_strangers(request: Request, served: Chosen, key: ChangeKey) -> Counted:
    """Delete a group of unknown pictures."""
    sent = await read_body(request, GroupRequest)

    def work(memory: Memory) -> Counted:
        count = memory.drop_unknowns(sent.group)
        served.publish("dropped", count=count)
        return Counted(count=count)

    return await served.change(work, key)
