"""The main routes. Every one takes ``?memory=NAME`` if several Memories are served."""

import contextlib
import tempfile
from pathlib import Path
from typing import Annotated, Any

from fastapi import HTTPException, Query, Request, Response
from fastapi.responses import StreamingResponse

from everlearn.errors import NothingToUndo
from everlearn.memory.answers import Answers
from everlearn.memory.memory import Memory
from everlearn.service.api.addresses import (
    ChangeKey,
    Chosen,
    documented_body,
    new_router,
    service_of,
)
from everlearn.service.api.bodies import read_body
from everlearn.service.api.models import (
    Answered,
    AskRequest,
    Corrected,
    CorrectRequest,
    Done,
    ForgetRequest,
    Forgot,
    OneName,
    OneTeaching,
    RenameRequest,
    SimilarName,
    Taught,
    TeachRequest,
    Undoable,
    Verified,
)
from everlearn.service.served import Served

router = new_router()

OperationId = Annotated[
    int | None,
    Query(ge=1, lt=1 << 63, description="The operation; refused if it is not the last one."),
]


@router.post("/teach", openapi_extra=documented_body(TeachRequest))
async def teach(request: Request, response: Response, served: Chosen, key: ChangeKey) -> Taught:
    """Teach one example; it is on disk when this returns, and the next question uses it."""
    sent = await read_body(request, TeachRequest)

    def work(memory: Memory) -> Taught:
        new = memory.teach(
            sent.example,
            sent.name,
            box=sent.box,
            source=sent.source,
            again=sent.again,
            also=sent.also,
            group=sent.group,
        )
        served.publish("taught", name=sent.name, new=new)
        return Taught(new=new)

    done = await served.change(work, key)
    if served.memory.keeps_keys:
        # A replica includes everything up to here when this is sent back as ``after``.
        position = await served.question(lambda memory: memory.position)
        response.headers["everlearn-position"] = str(position)
    return done


@router.post("/correct", openapi_extra=documented_body(CorrectRequest))
async def correct(request: Request, served: Chosen, key: ChangeKey) -> Corrected:
    """Teach an example as this name; if it is taught under another name, move it."""
    sent = await read_body(request, CorrectRequest)

    def work(memory: Memory) -> Corrected:
        done = memory.correct(
            sent.example, sent.name, box=sent.box, source=sent.source, also=sent.also
        )
        served.publish("corrected", name=done.name, moved_from=list(done.moved_from))
        return Corrected.model_validate(done)

    return await served.change(work, key)


@router.post("/ask", openapi_extra=documented_body(AskRequest, bare=True))
async def ask(request: Request, served: Chosen) -> Answered:
    """Name an example. With ``remember``, an unknown one is kept among the unknowns."""
    sent = await read_body(request, AskRequest)
    return await answer_question(served, sent)


async def answer_question(served: Served, sent: AskRequest) -> Answered:
    """Answer one question and notify listeners."""

    def ask(memory: Memory) -> Answers:
        return memory.ask(
            sent.example,
            box=sent.box,
            where=sent.where,
            top=sent.top,
            remember=sent.remember,
            after=sent.after,
        )

    answers = await (served.change(ask) if sent.remember else served.question(ask))
    if sent.session is not None:
        served.combine_frames(sent.session, answers)
    served.publish_answer(answers, session=sent.session, example=sent.example)
    return Answered.of(answers)


@router.post("/forget", openapi_extra=documented_body(ForgetRequest))
async def forget(request: Request, served: Chosen, key: ChangeKey) -> Forgot:
    """Unlearn an example, a name, or everything from a source."""
    sent = await read_body(request, ForgetRequest)

    def work(memory: Memory) -> Forgot:
        forgotten = Forgot.of(memory.forget(**sent.choice))
        names = {} if sent.erase else forgotten.names
        served.publish("erased" if sent.erase else "forgotten", count=forgotten.count, names=names)
        return forgotten

    return await served.change(work, key, whole=not sent.erase)


@router.post("/would-forget", openapi_extra=documented_body(ForgetRequest))
async def would_forget(request: Request, served: Chosen) -> Forgot:
    """What ``forget`` would forget; changes nothing."""
    sent = await read_body(request, ForgetRequest)
    return Forgot.of(await served.question(lambda memory: memory.would_forget(**sent.choice)))


@router.post("/rename", openapi_extra=documented_body(RenameRequest))
async def rename(request: Request, served: Chosen, key: ChangeKey) -> OneName:
    """Rename a name; if the new name exists, the two are merged."""
    sent = await read_body(request, RenameRequest)

    def work(memory: Memory) -> OneName:
        name = memory.rename(sent.old, sent.new)
        served.publish("renamed", old=sent.old, new=name)
        record = memory.names(containing=name)[name]
        return OneName(name=name, count=record.count, last_taught=record.last_taught)

    return await served.change(work, key)


@router.post("/undo")
async def undo(served: Chosen, key: ChangeKey, id: OperationId = None) -> Done:
    """Undo the last operation."""

    def work(memory: Memory) -> Done:
        change = Done.model_validate(memory.undo(id))
        served.publish("undone", kind=change.kind, count=change.count, names=change.names)
        return change

    return await served.change(work, key)


@router.post("/redo")
async def redo(served: Chosen, key: ChangeKey, id: OperationId = None) -> Done:
    """Redo the operation undone last."""

    def work(memory: Memory) -> Done:
        change = Done.model_validate(memory.redo(id))
        served.publish("redone", kind=change.kind, count=change.count, names=change.names)
        return change

    return await served.change(work, key)


@router.get("/undoable")
async def undoable(served: Chosen) -> Undoable:
    """What ``undo`` and ``redo`` would do; changes nothing."""

    def look(memory: Memory) -> Undoable:
        found: dict[str, Done | None] = {"undo": None, "redo": None}
        for which, ask in (("undo", memory.would_undo), ("redo", memory.would_redo)):
            with contextlib.suppress(NothingToUndo):
                found[which] = Done.model_validate(ask())
        return Undoable(**found)

    return await served.question(look)


@router.get("/history")
async def history(served: Chosen, limit: Annotated[int, Query(ge=1, le=1_000)] = 100) -> list[Done]:
    """The operations, latest first."""
    changes = await served.question(lambda memory: memory.history(limit))
    return [Done.model_validate(change) for change in changes]


@router.get("/names")
async def names(
    served: Chosen,
    containing: Annotated[str | None, Query(max_length=200)] = None,
    limit: Annotated[int | None, Query(ge=1, lt=1 << 31)] = None,
    offset: Annotated[int, Query(ge=0, lt=1 << 31)] = 0,
    latest_first: bool = False,
) -> list[OneName]:
    """The known names: all of them, or a page of those that contain a text."""
    known = await served.question(
        lambda memory: memory.names(
            containing, limit=limit, offset=offset, latest_first=latest_first
        )
    )
    return [
        OneName(name=name, count=record.count, last_taught=record.last_taught)
        for name, record in known.items()
    ]


@router.get("/similar-name")
async def similar_name(
    served: Chosen, name: Annotated[str, Query(min_length=1, max_length=200)]
) -> SimilarName:
    """The known name that a new one looks like a misspelling of."""
    return SimilarName(similar=await served.question(lambda memory: memory.similar_name(name)))


@router.get("/teachings")
async def teachings(
    served: Chosen,
    name: Annotated[str | None, Query(max_length=200)] = None,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
    offset: Annotated[int, Query(ge=0, lt=1 << 63)] = 0,
) -> list[OneTeaching]:
    """Current teachings in the order they were taught: all of them, or those of one name."""
    found = await served.question(lambda memory: memory.teachings(name, limit=limit, offset=offset))
    return [OneTeaching.model_validate(teaching) for teaching in found]


@router.get(
    "/thumbnails/{id}",
    response_class=Response,
    responses={200: {"content": {"image/jpeg": {}}, "description": "A small JPEG."}},
)
async def thumbnail(id: int, served: Chosen) -> Response:
    """A thumbnail of a teaching, if one is stored."""
    picture = await served.question(lambda memory: memory.thumbnail(id))
    if not picture:
        raise HTTPException(404, "no picture of this teaching is stored")
    return Response(picture, media_type="image/jpeg")


@router.get("/info")
async def info(served: Chosen) -> dict[str, Any]:
    """Facts about the Memory: counts, network, classifier, sizes."""
    return await served.question(lambda memory: memory.info())


@router.get("/memories")
async def memories(request: Request) -> list[str]:
    """The names of the served Memories, in order."""
    return list(service_of(request).served)


@router.post("/verify")
async def verify(served: Chosen) -> Verified:
    """Check every row and digest, and the model against a replay; changes wait until then."""
    return Verified.model_validate(await served.change(lambda memory: memory.verify()))


@router.get(
    "/export",
    response_class=Response,
    responses={200: {"content": {"application/octet-stream": {}}, "description": "ONNX."}},
)
async def export(served: Chosen) -> Response:
    """The classifier as one ONNX file: features in, probabilities out."""

    def work(memory: Memory) -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "memory.onnx"
            memory.export(file)
            return file.read_bytes()

    named = {"content-disposition": 'attachment; filename="memory.onnx"'}
    data = await served.change(work)
    return Response(data, media_type="application/octet-stream", headers=named)


@router.get(
    "/events",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {}}, "description": "Until either ends."}},
)
async def events(request: Request, served: Chosen) -> StreamingResponse:
    """Events from now on: taught, corrected, forgotten, erased, renamed, undone, redone, named,
    ignored, dropped, unknown, track; and the progress of a check.
    """
    heard = service_of(request).events.listen(served.name)
    return StreamingResponse(heard, media_type="text/event-stream")
