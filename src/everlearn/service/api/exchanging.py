"""Exchange with a Memory elsewhere: fetch the journal, merge parts of another."""

import contextlib
import tempfile
from pathlib import Path
from typing import Annotated, Literal

from fastapi import Query, Request
from fastapi.responses import FileResponse
from pydantic import BaseModel
from starlette.background import BackgroundTask

from everlearn.memory.edits.merging import Merged
from everlearn.memory.memory import Memory
from everlearn.memory.storage.sqlite.database import FILE
from everlearn.service.api.addresses import ChangeKey, Chosen, new_router

router = new_router()


class OneConflict(BaseModel):
    source: str
    here: list[str]
    there: str
    digest: str
    box: list[float] | None


class MergedPart(BaseModel):
    """The result of a merge, as from ``everlearn.Memory.merge``."""

    taught: int
    forgotten: int
    erased: int
    kept_out: int
    conflicts: list[OneConflict]

    @classmethod
    def of(cls, merged: Merged) -> "MergedPart":
        listed = [
            OneConflict(
                source=one.source,
                here=list(one.here),
                there=one.there,
                digest=one.digest.hex(),
                box=None if one.box is None else list(one.box),
            )
            for one in merged.conflicts
        ]
        return cls(
            taught=int(merged),
            forgotten=merged.forgotten,
            erased=merged.erased,
            kept_out=merged.kept_out,
            conflicts=listed,
        )


@router.get(
    "/journal",
    response_class=FileResponse,
    responses={200: {"content": {"application/vnd.sqlite3": {}}, "description": "All of it."}},
)
async def journal(served: Chosen) -> FileResponse:
    """The current journal with pictures and history, for another Memory to merge."""
    with contextlib.ExitStack() as kept:
        place = kept.enter_context(tempfile.TemporaryDirectory(prefix="everlearn-"))
        await served.question(lambda memory: memory.backup(Path(place) / "copy"))
        leave = kept.pop_all().close
    return FileResponse(
        Path(place) / "copy" / FILE,
        media_type="application/vnd.sqlite3",
        background=BackgroundTask(leave),
    )


@router.post(
    "/merge",
    openapi_extra={
        "requestBody": {"required": True, "content": {"application/vnd.sqlite3": {}}},
    },
)
async def merge(
    request: Request,
    served: Chosen,
    key: ChangeKey,
    conflicts: Annotated[
        Literal["list", "there"],
        Query(description="Pictures with another name there: list them, or take that name."),
    ] = "list",
    group: Annotated[str | None, Query(max_length=100)] = None,
) -> MergedPart:
    """Learn and forget what another Memory learned and forgot; the body is a journal."""
    sent = await request.body()

    def work(memory: Memory) -> MergedPart:
        with tempfile.TemporaryDirectory(prefix="everlearn-") as place:
            (Path(place) / FILE).write_bytes(sent)
            with Memory(place, read_only=True) as other:
                merged = memory.merge(other, conflicts=conflicts, group=group)
        served.publish("merged", taught=int(merged), forgotten=merged.forgotten)
        return MergedPart.of(merged)

    return await served.change(work, key, whole=False)
