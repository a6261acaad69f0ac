"""Names for files of a folder that is shown to the page, by the rule of the command line."""

from typing import Annotated

from fastapi import Request
from pydantic import BaseModel, Field

from everlearn.images import folders
from everlearn.service.api.addresses import Chosen, new_router, takes
from everlearn.service.api.bodies import received
from everlearn.service.api.models import Image, Sent

# So many files are named at a time.
MOST_FILES = 20_000
# What the command line says in its own words.
WORDS = {
    folders.NO_IMAGE: "not an image",
    folders.VIDEO: "a video; everlearn teach --every SECONDS takes frames of it",
    folders.LOOSE: "lies beside the folders, so it has no name; drop it alone and type one",
}

router = new_router()


class ListedFile(Sent):
    path: Annotated[str, Field(min_length=1, max_length=4_096)]
    start: Image = Field(
        b"", description="Its first 64 bytes, which decide where the suffix says nothing."
    )


class FoldersRequest(Sent):
    files: Annotated[list[ListedFile], Field(max_length=MOST_FILES)]


class NamedFile(BaseModel):
    name: str | None = Field(description="That of the folder it lies in; null if it has none.")
    image: bool = Field(description="Whether it can be taught once it has a name.")
    reason: str | None = Field(description="Why it has no name.")


@router.post("/folders", openapi_extra=takes(FoldersRequest))
async def name_files(request: Request, served: Chosen) -> list[NamedFile]:
    """Which names the files of a folder would be taught under; changes nothing."""
    sent = await received(request, FoldersRequest)
    found = folders.names_of_listed([(file.path, file.start[:64]) for file in sent.files])
    return [
        NamedFile(
            name=name,
            image=reason in (None, folders.LOOSE, folders.BAD_NAME),
            reason=None if reason is None else WORDS.get(reason, reason),
        )
        for name, reason in found
    ]
