"""Names for the files of a folder dropped on the page, by the same rule as the command line."""

from typing import Annotated

from fastapi import Request
from pydantic import BaseModel, Field

from everlearn.images import folders
from everlearn.images.names import one_spelling
from everlearn.memory.edits.writing import misspelled_among
from everlearn.service.api.addresses import Chosen, documented_body, new_router
from everlearn.service.api.bodies import read_body
from everlearn.service.api.models import Image, RequestModel

# Most files named in one request.
MOST_FILES = 20_000
# Wording for the page; the command line has its own.
WORDS = {
    folders.NO_IMAGE: "not an image",
    folders.VIDEO: "a video; everlearn teach --every SECONDS takes frames of it",
    folders.LOOSE: "is not inside a folder, so it has no name; drop it alone and type one",
}
# Reasons of files that can be taught once they have a name.
UNNAMED = (folders.LOOSE, folders.BAD_NAME, folders.RESERVED_NAME)

router = new_router()


class ListedFile(RequestModel):
    path: Annotated[str, Field(min_length=1, max_length=4_096)]
    start: Image = Field(
        b"", description="Its first 64 bytes, which decide if the suffix is not known."
    )


class FoldersRequest(RequestModel):
    files: Annotated[list[ListedFile], Field(max_length=MOST_FILES)]


class NamedFile(BaseModel):
    name: str | None = Field(description="The name of its folder; null if it has none.")
    image: bool = Field(description="Whether it can be taught once it has a name.")
    reason: str | None = Field(description="Why it has no name.")
    similar: str | None = Field(
        description="A known name that a new name looks like a misspelling of."
    )


@router.post("/folders", openapi_extra=documented_body(FoldersRequest))
async def name_files(request: Request, served: Chosen) -> list[NamedFile]:
    """The names under which the files of a folder would be taught; changes nothing."""
    sent = await read_body(request, FoldersRequest)
    found = folders.names_of_listed([(file.path, file.start[:64]) for file in sent.files])
    known = await served.question(lambda memory: memory.names())
    spelling = one_spelling([name for name, _ in found if name is not None], known)
    similar = misspelled_among(set(spelling.values()), known)
    spelled = [(None if name is None else spelling[name], reason) for name, reason in found]
    return [
        NamedFile(
            name=name,
            similar=None if name is None else similar.get(name),
            image=reason is None or reason.startswith(UNNAMED),
            reason=None if reason is None else WORDS.get(reason, reason),
        )
        for name, reason in spelled
    ]
